"""What has to be done, what cannot be kept, and how long it takes.

changes    what has to be done on the target (pure)
estimate   how long it takes (pure)
finding    one thing to know before, and all that is looked at to find it (pure)
findings   what cannot be kept and what would be lost (pure)
plan       changes, findings and estimate (pure)
planshown  a plan for people
rights     which rights are missing (pure)
"""
