"""Smaller texts: the tokens of a text without those that a difference does not need."""

import re

TOKEN = re.compile(r"\w+|\s+|->|=>|::|\|\||\.\.\.|.", re.DOTALL)


def without_some(tokens, shows, size):
    """The tokens without groups of `size` tokens that are not needed."""
    at = 0
    while at < len(tokens):
        smaller = tokens[:at] + tokens[at + size :]
        if shows(smaller):
            tokens = smaller
        else:
            at += size
    return tokens


def fewer_tokens(tokens, shows):
    """The smallest list of tokens found for which `shows` is true: first half of them at a time, at last single ones."""
    tokens = tuple(TOKEN.findall("".join(tokens)))
    before = None
    while before != tokens:
        before, size = tokens, max(1, len(tokens) // 2)
        while size >= 1:
            tokens = without_some(tokens, shows, size)
            size //= 2
    return tokens
