"""Word lists of the writing rewards. TRANSITIONS and STOP_WORDS are those of arXiv 2508.04652
(the authors' released lists, entry by entry, double entries included). The other lists are ours,
for the strict rewards; strict.py says what each one is for."""


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Twelve categories, 279 entries.
TRANSITIONS = {
    "elaboration": _phrases(
        """furthermore, moreover, additionally, also, besides, in addition, what is more, not only,
        as well as, along with, coupled with, together with, likewise, similarly, equally important,
        by the same token, in the same way, correspondingly, in like manner, comparatively,
        analogously"""
    ),
    "examples": _phrases(
        """for example, for instance, specifically, particularly, namely, such as, including,
        especially, in particular, to illustrate, as an illustration, case in point, to demonstrate,
        as evidence, to exemplify, notably, markedly, chiefly, mainly, primarily, above all,
        most importantly"""
    ),
    "explanation": _phrases(
        """that is, in other words, to put it simply, to clarify, indeed, in fact, actually,
clearly, obviously, to put it another way, to rephrase, more precisely, specifically speaking,
what this means is, the point is, essentially, basically, fundamentally, at its core, in essence,
simply put, stated differently"""
    ),
    "cause_effect": _phrases(
        """therefore, thus, consequently, as a result, hence, accordingly, for this reason,
        due to this, because of this, so, then, thereby, wherefore, thence, ergo, as a consequence,
        in consequence, it follows that, this leads to, this results in, this causes,
        this brings about, owing to, on account of, thanks to, resulting from"""
    ),
    "contrast": _phrases(
        """however, nevertheless, nonetheless, on the other hand, in contrast, while, whereas,
        although, even though, despite this, but, yet, still, conversely, on the contrary, rather,
        instead, alternatively, otherwise, in opposition, by contrast, contrarily, notwithstanding,
        regardless, all the same, even so, be that as it may, in any case, at any rate"""
    ),
    "sequence": _phrases(
        """first, second, third, next, then, after that, finally, lastly, initially,
subsequently, meanwhile, to begin with, to start with, in the beginning, at first, at the outset,
primarily, secondly, thirdly, following this, afterward, later, later on, in the meantime,
simultaneously, concurrently, at the same time, in conclusion, to conclude, ultimately, in the
end, to summarize, in summary"""
    ),
    "emphasis": _phrases(
        """indeed, certainly, surely, undoubtedly, without doubt, definitely, absolutely,
positively, unquestionably, indubitably, of course, naturally, obviously, clearly, evidently,
manifestly, undeniably, admittedly, granted, to be sure, in fact, as a matter of fact, notably,
significantly"""
    ),
    "summary": _phrases(
        """in summary, in conclusion, to summarize, to conclude, in short, in brief, briefly,
        to sum up, on the whole, overall, all in all, in essence, essentially, basically,
        fundamentally, in the final analysis, after all, ultimately, in the end,
        when all is said and done, the bottom line is"""
    ),
    "comparison": _phrases(
        """similarly, likewise, in the same way, equally, just as, comparable to, in comparison,
by the same token, correspondingly, in like manner, along the same lines, in similar fashion,
analogously, by analogy, just like, much like, as with"""
    ),
    "concession": _phrases(
        """although, though, even though, while, whereas, despite, in spite of, regardless of,
        notwithstanding, admittedly, granted, even if, be that as it may, nevertheless, nonetheless,
        however, yet, still, all the same"""
    ),
    "condition": _phrases(
        """if, unless, provided that, assuming that, supposing that, in case, in the event that,
        on condition that, given that, as long as, so long as, only if, even if, whether or not,
        should, were, had, otherwise, or else"""
    ),
    "time": _phrases(
        """when, while, as, after, before, until, since, during, meanwhile, simultaneously,
        at the same time, concurrently, previously, formerly, earlier, later, afterward,
        subsequently, eventually, finally, recently, lately, nowadays, currently, presently,
        immediately"""
    ),
}

STOP_WORDS = _words(
    """
    a all also an and any are as at bad be been being both but by can could did do does each few
    first for from good great had has have he her here him his how i if in is it its just last
    left little long low many may me might more most much must my new no not now of old on only
    or other our own right same shall should so some such than that the their them then there
    these they this those to too us very was we were what when where which who why will with
    would you your
    """
)

# Words that hold sentences together and mean little by themselves. They are no content words.
FUNCTION_WORDS = STOP_WORDS - {"bad", "good", "great", "left", "long", "low", "new", "old", "right"}
FUNCTION_WORDS |= _words(
    """
    about above across after again against almost along already although always am among another
    anybody anyone anything around away because before behind below beneath beside besides
    between beyond cannot despite doing done down during either else enough ever every everybody
    everyone everything except further hence hers herself himself however indeed instead inside
    into itself let like maybe meanwhile mine moreover myself near neither never nevertheless
    next nobody none nor nothing off often once one ones oneself onto ought ourselves out
    outside over per perhaps quite rather second she since somebody someone something sometimes
    somewhat still themselves therefore third though through throughout thus till together
    toward towards under unless until up upon upto via was whatever whenever where whereas
    wherever whether while whoever whom whose within without yet yours yourself aren't can't
    couldn't didn't doesn't don't hadn't hasn't haven't he'd he'll he's i'd i'll i'm i've isn't
    it'd it'll it's let's mustn't she'd she'll she's shouldn't that's there's they'd they'll
    they're they've wasn't we'd we'll we're we've weren't what's who's won't wouldn't you'd
    you'll you're you've
    """
)

# Content words that fit any post or any abstract: they tie a response to nothing.
GENERIC_WORDS = _words(
    """
    advice ask asker asked author call come consider deal decide describe detail discuss explain
    express feel find get give go happen hear help issue keep know look make matter mean mention
    need people person place point post poster problem put question reader reason reddit
    redditor said say see seek seem share show situation start story subreddit suggest summary
    take talk tell thing think thought title told topic try understand use user want way went
    wonder work worry write writer day hour minute month time today tomorrow week year yesterday
    able bad better big certain clear common complex complicated current detailed different
    difficult easy effective efficient emotional entire existing full general good great hard
    high important interesting key large long low main major modern much new novel old overall
    personal possible previous recent relevant right robust several significant similar simple
    small specific strong traditional useful various whole wrong actually back basically clearly
    currently especially essentially finally generally highly just later mainly nearly
    particularly previously really recently significantly simply specifically usually well
    abstract achieve aim analysis analyze application apply approach area article aspect base
    baseline benefit case challenge change community compare comparison concept conclude
    conclusion context contribute contribution data dataset demonstrate design develop
    development discussion evaluate evaluation evidence experiment explore factor field finding
    focus framework function future goal highlight idea impact implication improve improvement
    include increase indicate information insight introduce introduction investigate knowledge
    lead learn level limit limitation literature method methodology model motivation nature
    number object observation offer order outcome paper part perform performance potential
    practice present principle process produce propose property provide purpose range reduce
    report require research researcher result reveal role scenario science set solution solve
    step strategy structure study support system task technique technology test theory tool type
    value variety view world came gave got made
    """
)

# Transitions that join two clauses without a comma before them.
JOINING = frozenset(
    _phrases(
        """after, although, as long as, because, before, but, even if, even though, given that, if,
        provided that, since, so, so that, though, unless, until, when, whereas, while, yet"""
    )
)
# Transitions of everyday use, many of which join nothing: they do not count as crammed.
EVERYDAY = JOINING | frozenset(
    _phrases(
        """actually, along with, also, as, as well as, as with, comparable to, currently, during,
        earlier, especially, first, had, including, instead, just as, just like, later, mainly,
        naturally, next, not only, overall, rather, recently, second, should, significantly, still,
        such as, that is, then, third, together with, were"""
    )
)

# Signs of a verb, besides "to" or a pronoun before a content word and the endings -ed and -ing.
AUXILIARIES = _words(
    """
    am are be been being can cannot could did do does doing done had has have having is may
    might must shall should was were will would aren't can't couldn't didn't doesn't don't
    hadn't hasn't haven't he'd he'll he's i'd i'll i'm i've isn't it'd it'll it's let's she'd
    she'll she's shouldn't that's there's they'd they'll they're they've wasn't we'd we'll we're
    we've weren't what's who's won't wouldn't you'd you'll you're you've
    """
)
SUBJECTS = _words("i he it she that there they we which who you")

_ARTICLES = "a an the my your our their every"
_BE, _HAVE, _DID = "am is are was were", "has have had", "does did"
_MODALS = "can could will would should might must"  # not "may": a month
_THEY, _THEM = "i he she we they", "me him us them it this these those"
_IN = "of in for with from by into during between"

# What never follows what in English; "." is the end of a sentence and "," any mark inside one.
_NEVER = (
    (
        _ARTICLES,
        f"{_ARTICLES} {_BE} {_HAVE} {_DID} {_THEY} {_THEM} {_IN} could would should to at on among "
        "upon and or but because than although though unless whereas who which what how why when "
        "where while then if be been any as without . ,",
    ),
    (_IN, _IN),
    (
        "of from into at by with during between among toward towards upon",
        f"{_BE} {_DID} {_MODALS} {_THEY} has had and but of to because",
    ),
    ("of from into between among during to for by as if than because although unless whereas", "."),
    ("to", f"{_BE} {_DID} {_THEY} {_IN} has had could would should to but because than"),
    (_BE, f"{_BE} {_HAVE} {_DID} {_MODALS}"),
    (_MODALS, f"{_BE} {_MODALS} {_DID} has had of from into for in"),
    (_HAVE, f"{_BE} {_MODALS} {_DID}"),
    (_DID, f"{_BE} {_MODALS} {_DID} of"),
    (_THEY, f"{_ARTICLES} {_THEY} {_THEM} of from into to ."),
    ("and or but", "and or but ."),
    ("this it", _ARTICLES),
    ("any", f"{_ARTICLES} any ."),
    ("very", f"{_ARTICLES} {_BE} {_IN} {_THEY} and or but . ,"),
    ("because although unless whereas if while", f"{_BE} {_HAVE} {_MODALS} or but"),
)
NEVER: dict[str, set[str]] = {}
for _first, _next in _NEVER:
    for _word in _first.split():
        NEVER.setdefault(_word, set()).update(_next.split())
for _slip in _MODALS.split():
    NEVER[_slip].discard("of")  # "could of" is a common slip, not salad
NEVER["a"].discard("while")
TO_OR_MODAL = frozenset(["to", *_MODALS.split()])
