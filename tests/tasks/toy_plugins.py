"""Hold the files of toy plug-ins, as a developer outside the repository would write them."""

METHOD = '''
    """Toy levels: groups of similar people, published with item means and the group's level."""

    from tasks.methods import Method, Words


    def steps(config):
        return {
            "ingest": (),
            "padding": ("ingest",),
            "sampling": ("ingest",),
            "centers": ("ingest", "padding", "sampling"),
            "binning": ("ingest", "padding", "centers"),
            "clustering": ("ingest", "padding", "binning"),
            "homogenization": ("ingest", "clustering"),
        }


    METHOD = Method(
        name="toy-levels",
        summary="a toy: item means and the group's level",
        unit="group",
        steps=steps,
        grouping="bounded_tmeans",
        profiler="toy_levels",
        words=Words(publishes="Every group is published with the toy's levels."),
        remedy="use less of a toy",
        tables=("clustering",),
        plot_marker="X",
    )
'''

PROFILER = '''
    """Toy levels: every item, its mean over all people plus the group's mean deviation from such means."""

    import numpy as np

    from tasks.config.base import Settings
    from tasks.data import profiles
    from tasks.data.ratings import Ratings
    from tasks.kernels.padded import encode

    DOUBT = 5.0  # ratings' worth of doubt about a group's level


    class Params(Settings):
        scale: tuple[float, float]
        rating_step: float


    def params(config):
        return Params(scale=config.source.scale, rating_step=config.privacy.rating_step)


    def make(context, inputs):
        ratings = Ratings(inputs.ratings)
        rated = ratings.by_user.take(np.arange(ratings.n_users))
        counts = np.maximum(np.bincount(rated.indices, minlength=ratings.n_items), 1)
        means = np.bincount(rated.indices, rated.data, minlength=ratings.n_items) / counts
        labels = np.load(inputs.label_file)
        group = np.repeat(labels, np.diff(rated.indptr))
        level = np.bincount(group, rated.data - means[rated.indices]) / (np.bincount(group) + DOUBT)
        chosen = context.params
        codes = encode(means + level[:, None], chosen.scale, chosen.rating_step)
        return profiles.write_dense_blocks(context.out / "groups.parquet", [(0, np.bincount(labels), codes)])
'''

RECOMMENDER = '''
    """Toy constant: everything is worth 3.5, and the last item comes first."""

    import numpy as np

    from tasks.recommenders import Recommender

    RECOMMENDER = Recommender(compared=True, position=15)


    class Constant:
        def __init__(self, items):
            self.items = items

        def rows(self, users):
            return np.tile(np.arange(self.items), (len(users), 1))

        def predict(self, users, items):
            return np.full(len(users), 3.5)


    def fit(train, weights=None):
        return Constant(train.shape[1])
'''

FORMAT = '''
    """Toy lines: `ratings.toy`, user|item|rating from 0 to 10; `people.toy` beside it."""

    from tasks.config.formats import Format
    from tasks.formats._attributes import read_user_table
    from tasks.formats._files import cut, find
    from tasks.formats._text import Layout, Places, rating_blocks

    FORMAT = Format(
        scale=(0.0, 10.0), attributes=("age", "city"), user_table="people.toy", attribute_edges={"age": (40.0,)}
    )


    def pieces(source, snapshot):
        return cut(find(source, snapshot, ["ratings.toy"]), source.block_bytes)


    def read(piece, source, snapshot):
        places = Places(user=0, item=1, rating=2, timestamp=None)
        return rating_blocks(piece, source, Layout(columns=3, separator="|"), places)


    def attributes(source, snapshot):
        layout = Layout(columns=3, separator="|")
        return read_user_table(source, snapshot, FORMAT.user_table, layout, ("user", "age", "city"))
'''
