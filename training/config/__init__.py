"""Recipes and the command line that reads them."""
