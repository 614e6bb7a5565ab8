"""What every client run shares: starting a broker, calling clients and tools, reporting.

Nothing here judges Corelog's answers; that is the work of `checks` and of the runs beside it.
"""
