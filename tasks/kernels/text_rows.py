"""Write a line of text for every member's rating: user, item and rating, joined from prepared byte strings."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def tail_bytes(indptr, items, texts, item_at, text_at):  # type: ignore[no-untyped-def]
    """Return the bytes that the items and ratings of each group take up as text, once."""
    total = np.zeros(len(indptr) - 1, np.int64)
    for group in range(len(total)):
        for cell in range(indptr[group], indptr[group + 1]):
            item = items[cell] if len(items) else cell - indptr[group]
            text = texts[cell]
            total[group] += item_at[item + 1] - item_at[item] + text_at[text + 1] - text_at[text]
    return total


@njit(cache=True, nogil=True)
def write_rows(groups, users, user_at, indptr, items, texts, item_bytes, item_at, text_bytes, text_at, out):  # type: ignore[no-untyped-def]
    """Write a line for each item of each member's group, member by member; return where the text ends.

    `groups` has the group of each member. Text i of a kind is bytes[at[i] : at[i + 1]]; without `items` a group holds
    every item.
    """
    end, known = 0, -1
    tails, tail_at = np.empty(0, np.uint8), np.empty(0, np.int64)
    for member in range(len(groups)):
        group = groups[member]
        cells = indptr[group + 1] - indptr[group]
        if group != known:  # the members of a group are consecutive: their common text is built once
            known = group
            tail_at = np.empty(cells + 1, np.int64)
            place = 0
            for cell in range(cells):
                item = items[indptr[group] + cell] if len(items) else cell
                text = texts[indptr[group] + cell]
                tail_at[cell] = place
                place += item_at[item + 1] - item_at[item] + text_at[text + 1] - text_at[text]
            tail_at[cells] = place
            tails = np.empty(place, np.uint8)
            place = 0
            for cell in range(cells):
                item = items[indptr[group] + cell] if len(items) else cell
                text = texts[indptr[group] + cell]
                for byte in range(item_at[item], item_at[item + 1]):
                    tails[place] = item_bytes[byte]
                    place += 1
                for byte in range(text_at[text], text_at[text + 1]):
                    tails[place] = text_bytes[byte]
                    place += 1
        first = user_at[member]
        width = user_at[member + 1] - first
        for cell in range(cells):
            for byte in range(width):
                out[end + byte] = users[first + byte]
            end += width
            begin, length = tail_at[cell], tail_at[cell + 1] - tail_at[cell]
            for byte in range(length):
                out[end + byte] = tails[begin + byte]
            end += length
    return end
