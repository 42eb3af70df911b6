"""What eval.py stands on: methods (how each answers), players (who answers), measures (estimators
and the table), report (how it is printed), plots (learning curves)."""
