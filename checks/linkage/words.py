"""Hold the words that the attacks which look for people share: what they know, and what their limit means."""

SOME_RATINGS = (
    "The attacker knows 2 to 16 of a person's ratings, drawn at random, popular or rare, exact or partly wrong, or "
    "what the person mentioned in a forum."
)
ONE_IN_K = (
    "At the limit the attacker names the right person in one of k cases, which the size of the group gives away by "
    "itself; above it a profile would point at single people."
)
NAMING = "chance of naming the right person"

FOR_EVERYBODY = (
    "The limit of one in k holds for every person, not on average; above it somebody stands alone."
)
NAMING_ANYBODY = "best chance of naming any one person"
