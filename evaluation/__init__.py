"""What eval.py stands on: players (who answers), measures (estimators and the table), report (how
it is printed), schemes (how a team divides the work), doctor (signs of failure), plots."""
