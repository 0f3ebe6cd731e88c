"""The report of a journal: computed by Spark, shown in the terminal and on a page.

Unless a module says otherwise, its functions are pure, and any thread may call them.
"""
