"""The embedded tasks: templates by site, how they are solved, and their item ids."""
