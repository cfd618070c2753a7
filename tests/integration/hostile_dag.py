"""Hold a DAG whose author wants a release out that the rule of a store keeps in: it runs in the stack of the tests.

Every attempt calls our own code as a task of Airflow does. The answer says how each ended.
"""

from airflow.sdk import DAG, task

with DAG("hostile", schedule=None, catchup=False):

    @task(retries=0)
    def attack() -> dict[str, str]:
        """Try to publish the candidate of `signed` without the people who must sign it."""
        import datetime
        import tomllib
        from pathlib import Path

        from murmur_airflow.work import run

        from tasks.config import parse
        from tasks.pipeline import code_version
        from tasks.series.publication import publish
        from tasks.store import Store, digest_of, read_json

        day, store = datetime.date(2026, 4, 1), Store()
        files = tomllib.loads(Path(__file__).with_name("releases").joinpath("signed.toml").read_text())
        private = store.private("signed", day)
        validated = private / "work" / "validate"
        digest = digest_of(read_json(validated / "step.json")["files"])

        def attempt(approved: str | None = None, **release: object) -> None:
            asked = {name: value for name, value in (files["release"] | release).items() if value is not None}
            run("publish", parse(files | {"release": asked}), day, approved)

        def past_the_steps() -> None:
            published = store.published("signed", day)
            publish(validated, published, private, store, lambda *_: None, code=code_version())

        attempts = {
            "skips approve": attempt,
            "as if approved": lambda: attempt(digest),
            "no approval": lambda: attempt(approval=False),
            "one signature": lambda: attempt(approval=None, approvers=["ann"], approvals=1),
            "the rule, unsigned": lambda: attempt(approval=None, approvers=["ann", "bob"], approvals=2),
            "past the steps": past_the_steps,
        }
        ends = {}
        for name, one in attempts.items():
            try:
                one()
                ends[name] = "published"
            except (Exception, SystemExit) as end:
                ends[name] = str(end)
        return ends

    attack()
