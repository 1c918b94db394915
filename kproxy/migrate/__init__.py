"""`kproxy migrate`: moving topics, with proof, from one cluster to another. All of PySpark that it needs is here."""
