"""Notices what became much slower: ratios within one run, beside committed ones."""
