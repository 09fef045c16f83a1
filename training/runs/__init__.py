"""The folder of a training run: what it keeps, resumes and logs."""
