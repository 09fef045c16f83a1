"""Scorings: finished episodes of a run judged anew, beside the records that they judge.

table          the database of one scoring, `RUN/scores/NAME/scores.sqlite`
scoring        plays a scorer over the episodes that lack a score, many at once
threshold      a scorer: another score that makes a success
profile        a scorer: the recorded actions, played again under another profile
judged         a scorer: a judge with a rubric
judgement      what a scoring says of one episode
progress       what a scoring shows while it judges
comparison     what a run comes to by its records and by a scoring, side by side

A record is never changed by a scoring, and an episode without a new score is missing, never 0.
"""
