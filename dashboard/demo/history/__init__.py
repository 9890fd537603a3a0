"""The demo's past: sixty days that a plan makes up, a pure function of the present time.

Everything in it is recognisable: processes and clients are called `simulation`, people and reasons end in
`(simulated)`, and each page says until when the past is simulated.
"""
