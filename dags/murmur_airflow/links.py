"""Link the boxes `validate` and `publish` to the report of their snapshot."""

from typing import Any

from airflow.sdk import BaseOperatorLink

from murmur_airflow.outcome import report_page


class ReportLink(BaseOperatorLink):
    """Link to the report in the Airflow UI; the task itself stores the address when it ends, whatever became of it."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the report; `ti_key` is the task instance that has just ended."""
        release = ti_key.dag_id.removeprefix("release_")
        snapshot = ti_key.get_template_context().get("logical_date")
        return report_page(release, snapshot.date().isoformat()) if snapshot else ""
