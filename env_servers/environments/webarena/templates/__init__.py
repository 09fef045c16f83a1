"""The embedded tasks: templates by site, and how they are solved."""
