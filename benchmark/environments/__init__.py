"""Measurements of single environments, each in one server on this machine."""
