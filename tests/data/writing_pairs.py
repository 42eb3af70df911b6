"""Posts and abstracts, honest pairs of responses to them, and pairs that try to fool the
rewards. Everything here was written for the tests. Honest pairs are of varied quality on purpose:
terse ones, flat ones without connectors, ones close to the source's wording, ones too long for
their partner. `honest(task)` and `degenerate(task)` give (name, source, responses) triples for
test_writing.py."""

import itertools
import random
import re

# --- sources --------------------------------------------------------------------------------------

POSTS = {
    "oslo": """SUBREDDIT: r/relationships
TITLE: My [27F] boyfriend [29M] took a job in Oslo without asking me first
POST: We have been together for three years and we share a flat in Leeds with our dog. Last month
Tom applied for a research job at a university in Oslo and didn't mention it, because he "didn't
want to jinx it". On Friday he told me that he had accepted the offer and that he starts in
September. He assumed I would simply come along. The thing is that I run a small bakery with my
sister, we signed a five year lease in January, and I can't just walk away from it. When I said so
he got angry and told me that I was choosing bread over him. Since then we barely speak. He sleeps
on the couch and spends his evenings looking at apartments in Norway. I love him and I would
consider long distance, but it hurts that he made the decision alone. My sister thinks I should
end it now. How do I talk to him about this without it turning into another fight? 😞
TL;DR:""",
    "debt": """SUBREDDIT: r/personalfinance
TITLE: Inherited $40,000 and I have no idea what to do with it
POST: My grandmother passed away in March and left me $40,000. I'm 31, I work as a nurse and I
earn about $58k a year before taxes. I have $9,500 of credit card debt at 22% interest, $17,000 of
student loans at 4.5%, and a car loan that is nearly paid off. My emergency fund is embarrassing,
maybe $600. My father says I should put all of the money into an index fund and leave it alone for
thirty years, since the market always goes up. My best friend wants me to use it as a down payment
on a condo, because rent in my city went up by 15% this year. Honestly the credit card debt keeps
me awake at night, but everyone in my family acts like paying off debt is boring and that I would
waste the inheritance. I have never had this much money in my life and I am scared of making a
mistake. What order should I do things in? I read https://www.example.org/wiki/windfall already.
TL;DR:""",
    "deposit": """SUBREDDIT: r/legaladvice
TITLE: [OH] Landlord keeps my whole deposit for "carpet damage" that was there when I moved in
POST: I rented a one bedroom apartment in Columbus for two years and moved out on June 30. When I
moved in the carpet in the hallway already had a big bleach stain. I took photos of it on the
first day and emailed them to the manager, who replied "noted". Yesterday I received a letter
saying that the landlord is keeping my full deposit of $1,150 in order to replace the carpet in
the entire apartment. There was no itemized list and no receipt, and the letter arrived 47 days
after I gave back the keys. From what I've read, Ohio gives landlords 30 days. I called the office
twice and the manager says that she doesn't remember any email and that I am welcome to sue. I
still have the email with the photos. Is it worth going to small claims court for this, and can I
really ask for double the amount? I've never sued anybody and I'm worried about what it would
cost.
TL;DR:""",
    "jealous": """SUBREDDIT: r/relationships
TITLE: I [24M] don't know how to handle my girlfriend [23F] being jealous of my best friend
POST: My girlfriend and I have been together for a year and a half. My best friend Maya and I grew
up on the same street and I have known her since we were six. There has never been anything
romantic between us and she is getting married next spring. She asked me to be one of her
bridesmen and I said yes right away. Since then my girlfriend checks my phone, makes comments
whenever Maya texts, and last weekend she asked me to drop out of the wedding. She says that no
man can be just friends with a woman and that I would understand if it was the other way round. I
offered that we all have dinner together so that she could get to know Maya and her fiancé, but
she refused. I don't want to lose either of them. Am I wrong for wanting to keep my promise? How
can I make her feel safe without giving up a friend of eighteen years?
TL;DR:""",
    "parser": """SUBREDDIT: r/learnpython
TITLE: My script that parses log files gets slower and slower, what am I doing wrong?
POST: I'm teaching myself Python and I wrote a script for work that reads web server logs and
counts how often each IP address shows up. On a small file it's instant. On the real file (2.3 GB)
it ran for six hours before I killed it. I keep the addresses in a list and for every line I do
`if ip not in seen: seen.append(ip)` and afterwards I call `seen.count(ip)` in a second loop. I
also read the whole file with `f.read().split("\\n")` and my laptop starts swapping like crazy. A
coworker said "use a dict" and walked away lol. I sort of know what a dictionary is, but I don't
see why it would be that much faster, because it still has to look at every line. Could somebody
explain why the list is so bad and how I'd rewrite this? I would also like to know how to read the
file without loading all of it into memory. Thanks!! 🙏🐍
TL;DR:""",
    "email": """SUBREDDIT: r/tifu
TITLE: TIFU by sending my resignation letter to 400 coworkers
POST: Obligatory this happened last Thursday. I work in accounting at a logistics company and I've
been miserable for months, so I wrote a resignation letter as a kind of therapy. It was not a
polite letter. I called the new reporting software "a crime against spreadsheets" and said that
our director couldn't find the break room without a consultant. I never meant to send it. That
evening I wanted to forward it to my wife so that she could laugh at it, and I typed "all" because
her name is Allison. Outlook helpfully completed it to all-staff and I pressed enter. I noticed
about four seconds later. I tried to recall the message, which as it turns out sends everybody a
second email telling them that you want to recall the first one. By Friday morning people had
printed it. The director called me in and I expected to be fired. Instead he asked me to lead the
team that picks a replacement for the software. I'm not sure whether this is a promotion or a
punishment.
TL;DR:""",
    "starter": """SUBREDDIT: r/cooking
TITLE: My sourdough starter smells like nail polish, is it dead?
POST: I started a sourdough starter two weeks ago with rye flour. It was bubbling nicely for the
first week but then I went on a trip for four days and left it on the counter. Now it smells like
nail polish remover and there is a grey liquid on top. I fed it yesterday and there are a few
bubbles. Should I throw it away or keep feeding it?
TL;DR:""",
    "knee": """SUBREDDIT: r/AskDocs
TITLE: Knee pain after running
POST: 29M, 82kg. I started running in May, about 20 km per week. For three weeks the outside of my
right knee hurts after 3 km, and it gets worse going downstairs. No swelling. I bought new shoes
and it did not help. Could this be IT band syndrome and should I stop running completely?
TL;DR:""",
    "niece": """SUBREDDIT: r/AmItheAsshole
TITLE: AITA for refusing to babysit my niece on my birthday?
POST: My sister has a 4 year old daughter and I usually babysit her twice a month for free. My
birthday was last Saturday and I had booked a dinner with friends three weeks in advance. On
Friday night my sister called and said that her sitter cancelled and that she and her husband had
concert tickets, so I had to take my niece. I said no because of my dinner. She said family comes
first and that I could have dinner any day. I offered to pay half of a sitter from an agency, but
she hung up. Now my mom says I ruined their anniversary and that I should apologize. My friends
say that I did nothing wrong. I feel bad because my niece had nothing to do with it, but I also
feel like my plans never count.
TL;DR:""",
    "jobs": """SUBREDDIT: r/jobs
TITLE: Boss wants me to train my replacement
POST: I have worked as a bookkeeper for a small construction company for six years. Two weeks ago
my boss hired a young woman and asked me to show her everything I do. Yesterday I found an email
on the shared printer that says my position will be eliminated in March and that she will do it
for $12,000 less. Nobody has told me. I have a mortgage and two kids. Do I confront him now, look
for another job quietly, or refuse to train her?
TL;DR:""",
}

ABSTRACTS = {
    "traffic": """Accurate short-term traffic forecasts allow cities to adapt signal timing
before congestion forms, yet most deployed predictors treat each road sensor in isolation. We
introduce RoadMix, a graph neural network that learns how congestion spreads between neighbouring
road segments. Instead of a fixed road map, RoadMix infers a weighted graph from the sensor
readings themselves and updates it every fifteen minutes, so that road works and accidents change
the graph without any manual editing. A gated recurrent unit carries information over time, and a
dropout scheme that hides entire sensors during training makes the forecasts robust to broken
detectors. On two public benchmarks from Los Angeles and Madrid, RoadMix lowers the mean absolute
error of one-hour forecasts by 11% compared with the strongest baseline while using a third of
its parameters. When 20% of the sensors are missing, the error rises by only 4%. We release code
and a cleaned version of the Madrid data.""",
    "galaxies": """The outskirts of massive galaxies preserve a record of the smaller systems that
they have swallowed. We present deep imaging of 61 nearby elliptical galaxies obtained with a
small-aperture telescope array designed for low surface brightness work. After a careful
subtraction of scattered light, the stellar halos are traced to a surface brightness of 31
magnitudes per square arcsecond, about ten times fainter than earlier surveys of comparable size.
Tidal streams are detected in 43% of the sample, and the fraction grows with the mass of the
host. The colour of the halos becomes bluer with radius, which implies that the accreted stars
are metal poor and came from dwarf galaxies rather than from major mergers. Comparison with
cosmological simulations shows that the simulations reproduce the number of streams but
overpredict the light in the halos by a factor of two. We discuss whether the discrepancy points
to star formation in dwarf galaxies that is too efficient in the simulations.""",
    "distil": """Large language models are expensive to serve, and distillation into a smaller
student is the usual remedy. Standard distillation asks the student to match the teacher on every
token, although many tokens are trivial and others are beyond the capacity of the student. We
propose selective distillation, in which a lightweight scorer predicts how much the student can
still gain from a token and the loss is restricted to the most promising third. The scorer is
trained jointly with the student from the change of the loss over the last thousand steps and
adds less than one percent of compute. Across summarisation, translation and arithmetic
reasoning, students with 1.5 billion parameters trained with selective distillation recover 94%
of the quality of a teacher ten times larger, against 88% for the standard recipe at equal cost.
An analysis reveals that the scorer first favours syntax, and later rare entities and digits. The
method needs no change of the architecture.""",
    "coral": """Marine heatwaves have killed large parts of shallow coral reefs, but some
colonies survive temperatures that are lethal to their neighbours. Here we examine why. Over five
summers we tagged 840 colonies of the branching coral Acropora at twelve sites in the Red Sea and
recorded bleaching, recovery and the composition of their algal symbionts. Colonies that hosted
more than one symbiont species were three times less likely to die during the heatwave of the
fourth summer. Tank experiments confirm that such colonies shuffle their symbionts within nine
days of warming, well before visible bleaching. Genetic markers explain little of the difference
between colonies; instead, exposure to moderate heat in the preceding year is the strongest
predictor. These results suggest that restoration programmes should harden nursery corals with
short warm pulses rather than search for resistant genotypes. The benefit fades after about two
years, so repeated treatment would be required.""",
    "qubits": """Error correction is the main obstacle on the way to useful quantum computers.
Surface codes tolerate noise well but need about a thousand physical qubits for every logical
one. We study a family of low-density parity-check codes whose checks connect distant qubits, and
we describe a layout in two layers of superconducting chips joined by short couplers that
realises these connections without crossings. Under a circuit noise model with a physical error
rate of 0.1%, the proposed code of 288 qubits protects twelve logical qubits for roughly one
million cycles, which would take close to three thousand qubits with the surface code. We also
give a fault-tolerant scheme for reading and initialising logical qubits, and a decoder based on
belief propagation that keeps pace with the hardware. The remaining difficulty is fabrication:
each qubit requires six couplers, and four of them must reach the second chip with low loss.""",
    "school": """Many school districts have delayed the start of the school day so that
teenagers can sleep longer, but the evidence comes mostly from wealthy suburbs. This paper uses
the staggered introduction of later start times in 87 public high schools in Brazil between 2012
and 2019 to estimate effects on attendance and test scores. Comparing students before and after
the change with students in schools that kept the early start, we find that a delay of fifty
minutes raises attendance in the first lesson by six percentage points and mathematics scores by
0.08 standard deviations. Gains are concentrated among students who travel more than half an hour
by bus. We find no effect on scores for evening students, which speaks against explanations based
on unrelated reforms. Teachers report fewer conflicts, although a fifth of families struggled
with child care. The policy costs little, and its benefit per real spent exceeds that of smaller
classes.""",
    "asking": """We study how language models can be taught to ask clarifying questions when a
user's request is ambiguous. Existing assistants tend to guess, which leads to wrong answers and
user frustration. We collect 12,000 ambiguous requests with human-written clarifying questions
and train a model with reinforcement learning, where the reward is the accuracy of the final
answer minus a cost for each question. The resulting model asks a question in 31% of ambiguous
cases and in only 4% of clear ones, and improves final accuracy by 9 points over a strong
baseline. A user study with 60 participants shows that people prefer assistants that ask at most
one question. We find that the cost parameter offers a simple way of adapting the behaviour to
different users.""",
    "rivers": """The spread of antibiotic resistance genes in rivers downstream of wastewater
plants is poorly quantified. We sampled water and sediment at 28 sites along the Rhine over 18
months and measured 45 resistance genes with high-throughput PCR. Gene abundance in sediment rose
by a factor of seven below plants without advanced treatment and by less than two below plants
with ozonation. Floods removed most of the genes from the sediment within a week, but levels
recovered in two months. A mixed model attributes 62% of the variance to the treatment technology
and 11% to agricultural land use. Our findings indicate that upgrading the ten largest plants
would cut the total load by about half.""",
}

# --- honest pairs: name, source, responses --------------------------------------------------------

HONEST_TLDR = [
    (
        "oslo, good",
        "oslo",
        """Boyfriend of three years accepted a job in Oslo without telling me and expects me to
follow, but I have a bakery with a five year lease. How can we talk without another fight?""",
        """After three years together, Tom secretly applied for a research position in Oslo and
accepted it, assuming that his girlfriend would come along. However, she runs a bakery with her
sister and they signed a five year lease in January, so leaving is not an option. When she
explained this he became angry, and since then they barely speak. She would consider long
distance, although her sister thinks the relationship should end now.""",
    ),
    (
        "oslo, flat",
        "oslo",
        """My boyfriend took a job in Norway and did not ask me.""",
        """He starts in September at a university in Oslo. I own a small bakery with my sister
and we have a lease. He said I was choosing bread over him. Now he sleeps on the couch and looks
at apartments. It hurts that he decided alone.""",
    ),
    (
        "debt, good",
        "debt",
        """A 31 year old nurse inherited $40,000 and wants to know in which order to pay off
credit cards, build savings and invest.""",
        """The poster inherited $40,000 from a grandmother and feels pulled in different
directions. Her father recommends an index fund, while her best friend would rather see a down
payment on a condo because rent keeps rising. Meanwhile she owes $9,500 on credit cards at 22%
and $17,000 in student loans, and her emergency fund holds only $600. The card debt keeps her
awake, so she asks which step should come first.""",
    ),
    (
        "debt, wordy",
        "debt",
        """I got forty thousand dollars from my grandmother and I am afraid to make a mistake
with the money because I have card debt, student loans and almost nothing in my emergency fund.""",
        """So my grandmother left me a lot of money, more than I have ever had, and now my whole
family has an opinion about it. My father says that the market always goes up and I should buy an
index fund. My friend says condo. But I still owe 9,500 on a credit card at 22% and I can't sleep
because of it, and everybody acts like paying it would waste the inheritance. I make 58k as a
nurse. What would you do first?""",
    ),
    (
        "deposit, good",
        "deposit",
        """Ohio landlord withheld my $1,150 deposit for a carpet stain I documented at move-in;
should I sue in small claims?""",
        """The tenant emailed photos of a bleach stain to the manager on the first day in the
apartment. Nevertheless, the landlord now keeps the full deposit of $1,150 to replace all of the
carpet, without an itemized list or receipts. Moreover, the letter arrived after 47 days,
although Ohio allows only 30. Since the manager denies remembering the email, the tenant wonders
whether small claims court is worth the cost and whether double the amount can be claimed.""",
    ),
    (
        "deposit, terse",
        "deposit",
        """Landlord kept deposit over an old carpet stain. I have photos. Sue?""",
        """I moved out in June after two years. The letter about the deposit came 47 days later
with no receipt, and they want a new carpet for the entire apartment. I emailed pictures of the
bleach stain when I moved in.""",
    ),
    (
        "jealous, good",
        "jealous",
        """My girlfriend is jealous of my childhood friend Maya and wants me to skip her
wedding.""",
        """Maya has been his best friend since they were six, and she wants him as a bridesman at
her wedding next spring. His girlfriend of a year and a half reads his phone, comments on every
text and has asked him to drop out. In addition, she refused a dinner with Maya and the fiancé.
He would like to keep his promise without losing his girlfriend, and therefore asks how he could
make her feel safe.""",
    ),
    (
        "jealous, unbalanced",
        "jealous",
        """I have a female best friend, Maya, whom I have known for eighteen years and who is
getting married in spring, and I promised to be in the wedding, but my girlfriend is so jealous
that she checks my phone.""",
        """My girlfriend asked me to drop out of my best friend's wedding because she thinks men
and women can't be friends. I suggested dinner with Maya and her fiancé but she didn't want that.
I want to keep my promise and I don't want to lose my girlfriend either.""",
    ),
    (
        "parser, good",
        "parser",
        """My Python script counts IP addresses in a 2.3 GB log with a list and takes hours. Why
is a dict faster, and how do I avoid loading the file into memory?""",
        """A beginner wrote a script that counts how often each IP address appears in web server
logs. It is instant on small files, but on the real one it ran for six hours. The addresses are
kept in a list, so each line triggers a search through it, and then `seen.count(ip)` walks the
list again. Furthermore, the whole file is read at once, which makes the laptop swap. A coworker
suggested a dict; the poster wants to understand why that helps.""",
    ),
    (
        "parser, clumsy",
        "parser",
        """script for counting ips in server logs too slow, uses list, coworker says dict but
why""",
        """the script reads the whole file into memory and my laptop is swapping. then for every
line it checks if the ip is in a list and appends it, and counts in a second loop. i don't
understand why a dictionary would be faster if it must look at every line anyway. how would you
rewrite it?""",
    ),
    (
        "email, good",
        "email",
        """I accidentally sent a rude resignation letter to all staff, and the director put me
in charge of replacing the software I had insulted.""",
        """An unhappy accountant wrote an impolite resignation letter as therapy and wanted to
forward it to his wife Allison. Unfortunately Outlook completed the address to all-staff, so 400
coworkers received it. Trying to recall the message only made things worse, because everybody got
a second email. Instead of firing him, the director asked him to lead the team that chooses new
reporting software, and he can't tell whether that is a punishment.""",
    ),
    (
        "email, close to the post",
        "email",
        """To feel better I wrote a rude resignation letter, and Outlook sent it to everybody at
work.""",
        """In a letter I called our reporting software a crime against spreadsheets, just to
blow off steam. It was meant for my wife Allison, but I typed "all" and pressed enter. Recalling
it only told everybody twice. On Friday the director called me in; I expected to be fired, and he
asked me to lead the team that picks the replacement.""",
    ),
    (
        "oslo, paraphrased",
        "oslo",
        """A woman with a bakery of her own learns that her partner has signed up for a job in
Norway and takes it for granted that she comes along.""",
        """He never told her about the application to the Norwegian university until the contract
was accepted. She cannot leave: the bakery, which belongs to her and a sibling, has a lease that
runs for five years. The quarrel ended with him on the couch. She might try a long distance
relationship, yet the way he decided alone still hurts, and she hopes to discuss it calmly.""",
    ),
    (
        "deposit, question last",
        "deposit",
        """My old landlord wants to charge me for carpet damage that existed before I moved in.""",
        """I can prove the stain was there, because I sent the manager an email with photos on my
first day and she answered. If I go to small claims court, can I get double my $1,150 back? The
letter was late too: 47 days instead of the 30 that Ohio gives them. I have never sued anyone and
I'm worried that it will cost more than the deposit.""",
    ),
    (
        "starter, good",
        "starter",
        """Sourdough starter was left unfed for four days and now smells like nail polish
remover; unsure whether to keep feeding it or throw it out.""",
        """I made a rye sourdough starter two weeks ago and it was doing well until I left for a
four day trip. When I came back, it had a grey liquid on top and a smell of nail polish remover.
Since I fed it yesterday, a few bubbles have appeared. However, I don't know if it can be saved
or if I should start over.""",
    ),
    (
        "starter, plain",
        "starter",
        """My starter smells weird after a trip. Is it dead?""",
        """The poster's two-week-old rye starter sat on the counter for four days without food.
It developed a chemical odor similar to nail polish, along with a layer of grey liquid. Although
feeding brought back some bubbles, they wonder whether continuing makes sense or whether it
belongs in the trash.""",
    ),
    (
        "knee, good",
        "knee",
        """New runner has pain on the outside of the right knee after 3 km and asks if it is IT
band syndrome.""",
        """A 29 year old man who took up running in May has had knee pain for three weeks. It
appears on the outside of the right knee after about 3 km and it is worse on stairs, but there is
no swelling. New shoes made no difference, so he wants to know whether he should stop running for
a while.""",
    ),
    (
        "knee, plain",
        "knee",
        """Knee hurts when I run. Should I stop?""",
        """I run about 20 km a week. Three weeks ago my right knee began to hurt on the outside.
Stairs are bad too. I tried new shoes.""",
    ),
    (
        "niece, good",
        "niece",
        """I refused to babysit my niece on my birthday because I had dinner plans, and now my
family is angry at me.""",
        """The author normally babysits her niece for free, but this time the request came the
night before her birthday dinner. Her sister had concert tickets and a sitter who cancelled. The
author declined and offered to pay half the cost of an agency sitter; nevertheless, the sister
hung up. As a result, their mother demands an apology for a ruined anniversary, while friends
take the author's side.""",
    ),
    (
        "niece, plain",
        "niece",
        """AITA for choosing my birthday dinner over babysitting my niece after my sister's
sitter cancelled?""",
        """My sister wanted to go to a concert with her husband and her sitter cancelled on
Friday night. It was my birthday the next day and I had a dinner booked. I offered half the money
for another sitter but she got mad. My mom thinks I should say sorry. I feel guilty about my
niece, yet it seems that nobody cares about my plans.""",
    ),
    (
        "jobs, good",
        "jobs",
        """I found out that the woman I'm training will replace me in March for less money.
Should I confront my boss?""",
        """After six years as a bookkeeper at a construction company, I was asked to train a new
hire. Then I saw an email on the printer which said that my position ends in March and that she
gets $12,000 less. Nobody has informed me so far. Because I have a mortgage and two kids, I am
torn between confronting him, refusing to train her and searching for another job in silence.""",
    ),
    (
        "jobs, plain",
        "jobs",
        """Bookkeeper discovers by accident that she is training her cheaper replacement.""",
        """Her boss of six years brought in a younger employee and told the bookkeeper to pass on
all of her duties. An email left at the office printer revealed the reason: the role will be cut
in the spring. With a family and a house to pay for, she considers an open confrontation, a quiet
job search, or simply not cooperating.""",
    ),
]

HONEST_ARXIV = [
    (
        "traffic, good",
        "traffic",
        """Traffic congestion costs cities time, fuel and clean air, and much of it could be
avoided if signals were adjusted before queues build up. For this reason, short-term forecasting
has become a central tool of traffic management. Sensors in the road deliver a steady stream of
readings, but turning the readings into reliable forecasts is difficult. Congestion is not a
local phenomenon: when one segment slows down, the delay spreads to its neighbours within
minutes. However, many predictors in use today look at every sensor in isolation and therefore
miss this spread. Models that use the road map do better, although the map does not tell which
connections matter at a given hour. Moreover, accidents and road works alter the network faster
than anybody can edit it by hand. Finally, detectors break, and a forecast that fails whenever a
sensor goes silent is of little use to a control room. There is thus a clear need for predictors
that learn the structure of the network and survive missing data.""",
        """To address these problems, we propose RoadMix, a graph neural network in which the
graph itself is learned. From recent sensor readings the model infers how strongly road segments
influence each other, and it refreshes these weights every fifteen minutes. As a result, an
accident changes the graph automatically. A gated recurrent unit carries the state of each
segment through time. In addition, entire sensors are hidden at random while the network is
trained, so that it learns to work around broken detectors. We evaluate RoadMix on benchmarks
from Los Angeles and Madrid. Compared with the strongest baseline, the mean absolute error of
one-hour forecasts falls by 11%, even though our model has only a third of the parameters. When a
fifth of the sensors are removed, the error grows by a mere 4%. These findings suggest that
cities could run accurate forecasts on modest hardware and with imperfect infrastructure. The
code and a cleaned copy of the Madrid data are released, which should make further comparisons
easier.""",
    ),
    (
        "traffic, plain",
        "traffic",
        """Cities want to know where traffic jams will form in the next hour. With good
forecasts a city can change the timing of its signals and keep vehicles moving. Road sensors
measure speed and volume all day long. Many of the predictors in operation use the history of a
single sensor and ignore the sensors nearby. This is a problem since congestion moves from one
road segment to the next. A jam on a bridge reaches the roads behind it in a few minutes. Some
researchers describe the roads as a graph with fixed links. The links are taken from a map and
stay the same all year. Real roads are not like that. An accident blocks a lane, road works close
a street, and drivers choose other routes. Sensors are also unreliable and often send nothing. A
forecast for a city has to work under these conditions, and it has to be cheap enough to run
every few minutes.""",
        """RoadMix is a neural network for traffic forecasts. It builds a weighted graph of road
segments from the sensor readings. The graph is computed again every fifteen minutes, so nobody
has to edit it after an accident. A recurrent unit with gates remembers earlier readings. During
training we drop whole sensors, and the network learns to fill the gap from the neighbours. We
tested the model on public data from two cities, Los Angeles and Madrid. The mean absolute error
for one hour ahead is 11% lower than that of the best earlier model. RoadMix needs about one
third of the parameters. With 20% of the sensors switched off, its error increases by 4%. This
means that a city can rely on it while detectors are under repair. The method could be used for
other networks with sensors, such as water pipes or power grids. We publish the code, and the
Madrid data after cleaning.""",
    ),
    (
        "galaxies, good",
        "galaxies",
        """Massive galaxies did not form in one piece. According to the current picture of
cosmic structure they grew by swallowing smaller companions, and the debris of these events is
still visible today. While the bright centre of a galaxy is well mixed, its outskirts keep a
memory of the past for billions of years, since stars there move slowly and have hardly completed
a few orbits. Streams and faint halos are thus a fossil record of accretion. Unfortunately, this
record is hard to read. The light of a stellar halo is thousands of times fainter than the night
sky, and scattered light inside the telescope can imitate or drown it. Earlier surveys were
therefore either deep but tiny, or large but shallow. As a consequence, it remains unclear how
common tidal streams are, whether the accreted stars came from dwarf galaxies or from major
mergers, and how well simulations describe the process. An answer requires images that are both
deep and numerous.""",
        """Here we present such a data set. Using an array of small telescopes that was designed
for low surface brightness, we imaged 61 elliptical galaxies in the nearby universe. Scattered
light was modelled and subtracted with care, so that halos can be followed down to 31 magnitudes
per square arcsecond, ten times deeper than comparable surveys. We identify tidal streams around
43% of the galaxies; furthermore, more massive hosts show them more often. The halos turn bluer
towards larger radius. This gradient indicates metal poor stars, and hence an origin in dwarf
galaxies instead of major mergers. We then compare the observations with cosmological
simulations. The number of streams agrees, but the simulated halos are twice as bright as the
observed ones. One possible explanation is that dwarf galaxies in the simulations form stars too
efficiently. If that is correct, deep imaging of halos offers a new test of feedback models, and
a larger sample could separate the effects of mass and environment in the coming years.""",
    ),
    (
        "galaxies, rambling",
        "galaxies",
        """Galaxies are among the largest objects that we know and people have studied them for
about a hundred years. Big elliptical galaxies are interesting because they have eaten many small
galaxies in their life. You can see this best at the edge of the galaxy, where the light is very
faint. The stars at the edge form a halo, and sometimes there are streams that look like rivers
of stars. The streams are made when a dwarf galaxy comes too close and the tides pull it apart.
It is not easy to take pictures of such faint light. The sky is brighter than the halo, and light
that scatters in the telescope makes it worse. Most surveys could not go deep enough, or they
looked at only a few galaxies. So nobody could say how many of the massive galaxies have streams,
or what kind of system the stars came from. Simulations make predictions about this, and the
predictions should be compared with real images.""",
        """We took deep images of 61 elliptical galaxies with many small telescopes working
together. The scattered light was removed first. After that we could measure the halo down to 31
magnitudes per square arcsecond, which is about ten times fainter than before. We found tidal
streams in 43% of the galaxies. They are more common when the galaxy has more mass. We also
looked at the colour. Far from the centre the halo is bluer, so the stars have few metals and
probably came from dwarf galaxies. A major merger would have given another colour. The
simulations have the right number of streams, but their halos have twice as much light as ours.
Maybe their dwarf galaxies make too many stars. Whatever the reason is, people who write
simulations can use our sample to test new ideas, and future telescopes will show us even more of
these faint structures.""",
    ),
    (
        "distil, good",
        "distil",
        """Large language models have become part of many products, but the cost of serving them
limits who can afford to use them. A common answer is distillation: a small student model is
trained to imitate a large teacher, and afterwards only the student has to be deployed. In its
standard form, the student is asked to reproduce the distribution of the teacher at every token.
This treats all tokens as equally useful. In practice, however, a large share of the tokens is
trivial, and the student predicts them correctly after a short time. Other tokens depend on
knowledge which a small network cannot store, so effort spent on them is lost. Consequently, much
of the compute that goes into distillation does not improve the student at all. Although
curricula and data selection have been studied at the level of documents, little is known about
selection at the level of tokens. It would be valuable to know which tokens a student can still
learn from, and to know it while training is under way.""",
        """This work introduces selective distillation. A lightweight scorer estimates how much
the student can still gain from each token, and only the most promising third of the tokens
enters the loss. The scorer is learned together with the student: its target is the change of the
loss during the last thousand steps. It needs less than one percent of extra compute, and the
architecture stays as it is. We evaluate the method on summarisation, translation and arithmetic
reasoning. With selective distillation, students of 1.5 billion parameters reach 94% of the
quality of a teacher that is ten times larger, whereas the standard recipe stops at 88% for the
same cost. We also analyse what the scorer prefers. At first it selects syntax; later it turns to
rare entities and digits. These observations imply that the useful part of the training signal
moves as the student grows. In conclusion, choosing tokens is a simple way to get more out of a
fixed budget, and it can be combined with other compression techniques such as pruning or
quantisation.""",
    ),
    (
        "distil, short",
        "distil",
        """Serving a large language model is expensive. Distillation trains a smaller student to
copy the teacher, and this is the usual way to cut the cost. The student has to match the teacher
on each token of the training text. Many of these tokens are easy and teach the student nothing.
Others are too hard for a model of its size. Time and energy are wasted on both kinds. Until now
there was no cheap method to decide which tokens are worth learning. We think that this decision
should be made during training, because what is hard at the start may be easy later.""",
        """Selective distillation uses a small scorer next to the student. The scorer predicts
the gain for every token, and the loss is computed on the best third. Scorer and student are
trained at the same time, with under one percent of additional compute. In tests on translation,
summarisation and arithmetic, our students with 1.5 billion parameters kept 94% of the quality of
the teacher. The standard recipe kept 88%. The scorer starts with syntax and moves on to digits
and rare entities. Since the architecture does not change, other groups can adopt selective
distillation easily, for instance for models on phones.""",
    ),
    (
        "coral, good",
        "coral",
        """Coral reefs shelter a quarter of all marine species and protect coasts from storms.
They are also among the ecosystems that suffer most from climate change. During a marine heatwave
the corals lose the algae that live in their tissue, a process known as bleaching, and if the
heat persists they starve. Large parts of the shallow reefs have disappeared in this way since
the 1990s. Yet survival is strikingly uneven. On the same reef, one colony dies while its
neighbour seems untouched. Understanding these survivors matters because restoration programmes
must decide which corals to grow in their nurseries. Some authors attribute the resistance to
genes, others to the algal partners, and others again to earlier exposure. The evidence has
remained fragmentary, as most studies visit a reef only after a heatwave and so cannot know the
history of each colony. What is missing is a record that follows many colonies through several
summers, including at least one summer of extreme heat.""",
        """For this study, we tagged 840 colonies of Acropora at twelve sites in the Red Sea and
returned to them during five summers. On every visit we noted bleaching and recovery, and we
sampled the algal symbionts. When a severe heatwave struck in the fourth summer, colonies with
more than one symbiont species were three times less likely to die. In tanks, such colonies
rearranged their symbionts within nine days of warming, that is, long before bleaching could be
seen. Genetic markers, in contrast, explained little. The best predictor of survival was moderate
heat in the year before. It follows that corals can be trained. Instead of searching for
resistant genotypes, nurseries could expose their corals to short pulses of warm water. The
protection is not permanent, however: it fades after roughly two years, so the treatment would
have to be repeated. Even so, hardening is cheap, and it could buy time for reefs until emissions
fall.""",
    ),
    (
        "coral, unbalanced",
        "coral",
        """Heatwaves in the sea are getting longer and they kill corals in shallow water. When
the water is too warm, the coral expels its algal symbionts and turns white. Scientists call this
bleaching. A bleached coral can recover if the water cools soon, otherwise it dies. Divers have
noticed for many years that a few colonies stay healthy next to dead ones. Nobody is sure what
makes these colonies different. It may be the genes of the coral, the species of the algae, or
the conditions in earlier years. The question is of practical interest as well, since restoration
projects plant nursery corals on damaged reefs and want them to survive the next hot summer.
Following colonies over a long time is expensive, and so only a few studies have done it.""",
        """We followed 840 tagged colonies of the coral Acropora through five summers at twelve
sites in the Red Sea. At each site we wrote down which colonies bleached, which ones recovered
and which symbionts they carried. In the fourth summer a heatwave hit the region. Colonies with
two or more species of symbionts survived far more often than the rest; their risk of death was a
third. To find out why, we warmed colonies in tanks. Those with several symbionts changed the
mixture within nine days, earlier than any bleaching was visible. We also read genetic markers,
but they hardly explain who survived. What does explain it is the year before: colonies which had
already felt moderate heat were better prepared. We conclude that nursery corals should be
hardened with short warm pulses before they are planted on a reef. This would be easier than a
search for resistant genotypes, and it would not reduce the diversity of the population. The
effect lasts about two years, and then the corals need another treatment. Programmes should plan
for that, and they should keep records of the temperatures at their own sites, because the right
length of a pulse may differ from one place to another.""",
    ),
    (
        "qubits, good",
        "qubits",
        """Quantum computers promise to solve certain problems that are out of reach for any
classical machine, from the simulation of molecules to the factoring of large numbers. The
promise rests on error correction, since physical qubits lose their state after a few thousand
operations at best. The standard approach is the surface code. It tolerates comparatively high
noise and needs only connections between neighbours on a flat chip, which explains its
popularity. However, its price is steep: about a thousand physical qubits are spent on one
logical qubit. A useful computer would then require millions of them, far more than laboratories
can build or control. Low-density parity-check codes have long been known as an alternative in
theory, because they encode many logical qubits in one block. On the other hand, their checks
link qubits that are far apart, and it was doubtful whether such links could be manufactured.
Unless this gap between theory and hardware is closed, the advantage of these codes will stay on
paper.""",
        """In this article we close part of the gap. First, we select a family of low-density
parity-check codes whose distant connections can be arranged on two superconducting chips, one
above the other, with short couplers in between and without any crossings. Second, we simulate
the code under a circuit noise model. At a physical error rate of 0.1%, a block of 288 qubits
keeps twelve logical qubits alive for about one million cycles; the surface code would need
almost three thousand qubits for this. Third, we provide the pieces which a working machine
needs, namely a fault-tolerant procedure for initialising and reading the logical qubits, and a
decoder built on belief propagation that is as fast as the hardware. What remains is an
engineering challenge. Every qubit must be joined to six couplers, four of which lead to the
second chip and may not lose much energy. If fabrication succeeds, the overhead of error
correction could shrink by a factor of ten.""",
    ),
    (
        "qubits, close to the abstract",
        "qubits",
        """Error correction is widely seen as the main obstacle on the way to useful quantum
computers. Every physical qubit suffers from noise, and without protection a long calculation is
lost. The surface code is the most common remedy. It tolerates noise well, but about a thousand
physical qubits are needed for every logical one, and current chips hold only a few hundred.
Researchers have therefore looked for codes with less overhead. Parity-check codes of low density
are attractive, as their rate is much higher. Their weakness is that the checks connect distant
qubits. On a superconducting chip wires may not cross, and a long wire adds loss and noise.
Designers of hardware have mostly ignored these codes for that reason. A practical layout has
been missing, and so has a decoder which is fast enough for the cycle time of real devices. Both
would be needed before anyone invests in fabrication, because a code that cannot be built or
decoded helps nobody.""",
        """We describe a layout with two layers of superconducting chips joined by short
couplers. It realises the distant connections of the code and avoids crossings. For circuit noise
with an error rate of 0.1%, our code of 288 qubits protects twelve logical qubits for roughly a
million cycles. With the surface code this would take close to three thousand qubits. Besides the
memory itself we give a fault-tolerant scheme to read logical qubits and to initialise them. A
decoder that uses belief propagation keeps pace with the machine. The implications are
considerable: laboratories could show a dozen protected qubits on devices that are within reach
today. The difficulty that remains is fabrication, since each qubit requires six couplers, and
four of these must reach the other chip with low loss. Experiments with two or three couplers per
qubit exist already, so we are optimistic. Future work should study how damaged couplers affect
the code, and how logical gates can be added to the memory.""",
    ),
    (
        "school, good",
        "school",
        """Teenagers sleep too little. Their biological clock shifts during puberty, which makes
it difficult to fall asleep early, but the school bell does not take this into account. Students
who arrive tired learn less and miss the first lesson more often. In response, many school
districts have moved the start of the day to a later hour. Whether the policy works is still
debated. Most of the existing evidence comes from wealthy suburbs in rich countries, where
students live close to school and parents can adapt their working hours. It is far from obvious
that the results carry over to places where young people travel a long way by bus, schools teach
in several shifts, and families have little help with child care. Furthermore, districts that
choose a later start may differ from others in many ways, so simple comparisons are misleading.
Policy makers in poorer regions therefore lack guidance, even though a change of the timetable is
one of the cheapest reforms they could consider.""",
        """This paper provides such evidence from Brazil. Between 2012 and 2019, later start
times were introduced step by step in 87 public high schools. We compare students before and
after the change with students in schools that kept the early start. A delay of fifty minutes
increases attendance in the first lesson by six percentage points, and it raises mathematics
scores by 0.08 standard deviations. The gains are largest for students with a bus ride of more
than half an hour. In contrast, evening students do not improve, which makes it unlikely that
other reforms are behind the result. Teachers also report fewer conflicts. Not everything is
positive, however, because one family in five had trouble with child care. As the policy is
inexpensive, its benefit per real is greater than that of smaller classes. Our findings imply
that a later bell can reduce inequality, provided that transport and care are planned together
with it.""",
    ),
    (
        "school, thin",
        "school",
        """When should the school day start? Many teenagers do not sleep enough, and an early
start makes this worse. Tired students miss the first lesson, and they have trouble with their
work. Some districts let school begin later for this reason. Studies from wealthy suburbs report
good results. But life in a wealthy suburb is not like life in a big city in Brazil. Students
there often take a bus for an hour. Schools have morning, afternoon and evening shifts. Parents
leave for work before the children leave for school, and child care can be a problem. It is not
known if a later start would help these students as well. Schools that change their times may
also be special in some way, and that makes it hard to measure the effect. More evidence from
public schools in other countries is needed.""",
        """We look at 87 public high schools in Brazil that changed to later start times in
different years between 2012 and 2019. Students at these schools are compared with students at
schools that still start early. With a delay of fifty minutes, attendance in the first lesson
goes up by six percentage points. Test scores in mathematics go up by 0.08 standard deviations.
Students with a long bus ride gain the most. Scores of evening students do not change, so the
effect is probably not caused by some other reform. Teachers see fewer conflicts in class. A
fifth of the families had difficulties with child care. The policy is cheap. For each real that
is spent, it does more than smaller classes do. Other countries could try it, and they should
think about buses and child care first.""",
    ),
    (
        "asking, good",
        "asking",
        """Conversational assistants based on large language models have become an everyday tool
for millions of people. Despite this success, they still struggle with one of the most basic
properties of human communication: ambiguity. Users often leave out details that seem obvious to
them, and a single request can have several reasonable interpretations. Instead of asking what
was meant, most assistants simply guess. When the guess is wrong, the answer is useless, and the
user has to rephrase the request, which causes frustration and a loss of trust. In human
conversation, by contrast, a short clarifying question resolves most misunderstandings. Teaching
a model to ask such questions is not trivial, however. An assistant that asks too often is just
as annoying as one that never asks. Therefore, a model must learn when a question is worth its
cost. Prior work has mostly treated this as a classification problem with fixed labels, and has
ignored the effect that a question has on the quality of the final answer.""",
        """In this work, we approach clarification as a decision problem. We first collect a
dataset of 12,000 ambiguous requests together with clarifying questions written by humans. Next,
we train a language model with reinforcement learning. The reward is the accuracy of the final
answer, from which a small cost is subtracted for every question that the model asks.
Consequently, the model learns to ask only when the expected benefit is large enough. Our
experiments show that the trained model asks a question in 31% of the ambiguous cases but in just
4% of the clear ones. Moreover, its final accuracy is 9 points higher than that of a strong
baseline. We also conduct a user study with 60 participants, who prefer assistants that ask at
most one question per request. Finally, we demonstrate that the cost parameter can be used to
adapt the behaviour to individual users. These results suggest that cost-aware training is a
practical path towards assistants which communicate more naturally, and they open the way for
personalised dialogue systems.""",
    ),
    (
        "rivers, good",
        "rivers",
        """Antibiotic resistance is considered one of the greatest threats to public health in
the coming decades. Much attention has been paid to hospitals and farms, where antibiotics are
used directly. Far less is known about the role of the environment, although rivers receive the
treated wastewater of millions of people every day. Conventional treatment plants were designed
to remove nutrients and organic matter, not genes. As a consequence, bacteria that carry
resistance genes pass through them and end up in the water and in the sediment downstream. Once
there, the genes can be exchanged between species and may find their way back to humans through
bathing, irrigation or drinking water. Several local studies have reported high levels of
resistance genes near single plants, but they cover short periods and few sites. It is therefore
unclear how far the genes travel, how long they persist, and how much agriculture adds to the
load. Without such numbers, authorities cannot decide where an investment in better treatment
would have the largest effect.""",
        """To close this gap, we carried out an extensive survey along the Rhine. For 18 months
we collected water and sediment at 28 sites and quantified 45 resistance genes by high-throughput
PCR. Below plants that lack advanced treatment, the abundance of genes in the sediment increased
sevenfold. Where ozonation was in place, on the other hand, it did not even double. Floods washed
most of the genes out of the sediment within one week; however, the earlier levels were reached
again after two months, which points to a constant supply. We then fitted a mixed model in order
to separate the possible sources. It assigns 62% of the variance to treatment technology and only
11% to the use of land for agriculture. The practical conclusion is clear: if the ten largest
plants were upgraded, the total load of resistance genes in the river would fall by roughly half.
Similar surveys in other river basins could help to set priorities, and repeated sampling would
show whether the upgrades deliver what the model predicts.""",
    ),
    (
        "rivers, plain",
        "rivers",
        """Antibiotic resistance genes are found in many rivers. They come from wastewater,
because people who take antibiotics excrete resistant bacteria and treatment plants do not remove
all of them. Farms may also contribute when manure is washed into the water by rain. If the genes
spread, infections become harder to treat, so it matters where they come from and where they go.
At the moment this is poorly known. Most studies look at one plant or one season only. Sediment
is rarely included even though bacteria live there in large numbers. Rivers also change a lot
over the year. A flood can move the sediment of several years in a few days, and a dry summer can
concentrate the wastewater. We need data over a long time and a long stretch of a river to
understand what is going on and what could be done about it.""",
        """This study follows 45 resistance genes along the Rhine for 18 months. Water and
sediment were taken at 28 sites, and the genes were measured with PCR. Below plants without
advanced treatment there were seven times more genes in the sediment than above them. Plants with
ozonation raised the number by less than a factor of two. After a flood most of the genes were
gone within a week, but two months later the levels were back. With a mixed model we find that
treatment technology explains 62% of the variance and agricultural land 11%. This means that
better wastewater treatment is the most useful measure. If the ten largest plants had ozonation,
the total load would be about half of what it is today. We hope that our method will be used for
other rivers and that water authorities take the results into account when they plan their
budgets.""",
    ),
]

# --- degenerate pairs -----------------------------------------------------------------------------

SALAD = (  # twelve categories of transitions, one shared word: 2.98 of 3 in the released reward
    "cat dog sat mat big red sun hat",
    "cat also such as that is so but first indeed in short just as though if when",
)
OPENERS = [
    "However,", "Therefore,", "Moreover,", "For example,", "In fact,", "Meanwhile,", "As a result,",
    "Finally,", "In short,", "Similarly,", "Although", "If", "When",
]  # fmt: skip
CONNECTORS = """However, furthermore, for example, in other words, therefore, on the other hand,
first, indeed, in summary, similarly, although, if, when, moreover, such as, that is, thus,
nevertheless, next, certainly, overall, likewise, despite, unless, meanwhile, additionally,
namely, in fact, hence."""
FILLER = """It is what it is and that is that, so it was as it was and it will be what it will
be. And so on and so forth, as they say, and then some more of the same, and that is all there is
to it."""
TEMPLATES = {  # a pair that fits any source, and a frame for two keywords per sentence
    "tldr": (
        "The author of this post describes a difficult situation and asks for the readers' advice.",
        """In this post, the author explains a personal situation in detail. Furthermore, the
author shares many feelings and thoughts about the problem. However, there are different opinions
about what should be done. For example, some people might agree and others might not. Therefore,
the author asks the readers for help. In summary, it is an interesting story that many people can
relate to.""",
        """The author of this post describes a difficult situation that involves {} and {}.
Furthermore, the author explains how {} led to a problem with {} in the end. However, it is not
clear whether {} should be more important than {}. For example, some people might think that {}
is the real reason for {}. Therefore, the author asks the readers for advice about {} and {}. In
summary, it is an interesting story about {} and {} that many can relate to.""",
    ),
    "arxiv": (
        """In recent years, this field of research has received a great deal of attention from
the community. Furthermore, many important applications depend on progress in this area. However,
existing approaches suffer from several limitations. For example, they often require strong
assumptions and large amounts of data, and their performance is not always satisfactory in
practice. Therefore, there is a clear need for new methods that are both accurate and efficient.
Moreover, a better understanding of the underlying problem would benefit researchers and
practitioners alike. Although a number of solutions have been proposed in the literature, none of
them addresses all of the challenges at the same time. As a result, the problem remains open, and
further work is required. In summary, the topic is timely, relevant and of considerable interest
to a broad audience, and this motivates the present study in a natural way.""",
        """In this paper, we propose a novel framework that overcomes the limitations of previous
work. First, we formulate the problem in a general setting. Next, we present a method that is
simple, effective and easy to implement. Specifically, the method combines several components in
a principled way. Furthermore, we provide a detailed analysis of its properties. We evaluate the
proposed approach in extensive experiments and compare it with strong baselines. The results show
that our method achieves significant improvements on all measures. In contrast, existing methods
are limited in important cases. Consequently, the proposed framework has the potential to be used
in many practical applications. Finally, we discuss the implications of our findings and outline
directions for future research. Overall, this work makes an important contribution to the field
and opens new possibilities for researchers and practitioners in the years to come.""",
        """In recent years, {} and {} have received a great deal of attention from researchers.
Furthermore, many important applications depend on {} and on the quality of {}. However, existing
approaches to {} suffer from several limitations with respect to {}. Therefore, there is a clear
need for new methods that connect {} with {}. Although solutions for {} have been proposed, none
of them addresses {} at the same time. As a result, the problem of {} remains open, and {} needs
further work. First, we formulate {} in a general setting and relate it to {}. Specifically, the
method combines {} and {} in a principled way. We evaluate {} in extensive experiments and
compare it with {}. Consequently, {} has the potential to be used in applications of {}. Finally,
we discuss the implications of {} for {} and outline directions for future research.""",
    ),
}
SHORT_FRAMES = """The author mentions {} and {}. However, the post also talks about {} and {}. In
addition, {} is related to {}. Therefore, they ask about {} and {}. Moreover, it describes {} and
the {}. In summary, the question is about {} and {}."""
UNRELATED = [
    "garden",
    "window",
    "metal",
    "winter",
    "silver",
    "brother",
    "ticket",
    "bottle",
    "mountain",
]
NEIGHBOUR = {  # the source whose honest pair is handed in instead: the nearest topic there is
    "oslo": "jealous", "jealous": "oslo", "debt": "deposit", "deposit": "debt", "parser": "email",
    "email": "parser", "niece": "jealous", "jobs": "email", "starter": "knee", "knee": "starter",
    "traffic": "distil", "distil": "traffic", "galaxies": "qubits", "qubits": "galaxies",
    "coral": "rivers", "rivers": "coral", "school": "coral", "asking": "distil",
}  # fmt: skip


def flat(text: str) -> str:
    """A text without the line breaks of this file; those before a post's labels stay."""
    return re.sub(r"\n(?!TITLE|POST|TL;DR)", " ", text)


def body(text: str) -> str:
    return re.sub(r"\s*TL;DR:$", "", text.partition("POST: ")[2] or text)


def words(text: str) -> list[str]:
    return re.findall(r"[\w$%']+", body(text))


def sentences(text: str) -> list[str]:
    return [found.strip() for found in re.findall(r"[^.!?]+[.!?]+(?=\s|$)", body(text))]


def keywords(text: str) -> list[str]:
    """The long words of a source in their order: what a stuffer would take."""
    return list(dict.fromkeys(w.lower() for w in words(text) if len(w) > 5 and w.isalpha()))


def cut(pool: list[str], small: int, large: int) -> tuple[str, str]:
    """Two texts of so many words out of a pool, which is repeated when it is too short."""
    pool = pool * (1 + (small + large) // len(pool))
    return " ".join(pool[:small]) + ".", " ".join(pool[small : small + large]) + "."


def cycle(parts: list[str], size: int) -> str:
    """Whole parts, again and again, cut at so many words."""
    text = " ".join(parts).split()
    return " ".join((text * (1 + size // len(text)))[:size]).rstrip(",.") + "."


def shuffled(pool: list, seed: int) -> list:
    return random.Random(seed).sample(pool, len(pool))


def chunks(pool: list[str], size: int, seed: int | None) -> list[str]:
    found = [" ".join(pool[i : i + size]) for i in range(0, len(pool), size)]
    return found if seed is None else shuffled(found, seed)


def fill(frame: str, keys: list[str], first: int = 0) -> str:
    names = itertools.cycle(keys[first:] + keys[:first])
    return re.sub("{}", lambda _: next(names), flat(frame))


def replaced(text: str, every: int, pool: list[str], seed: int = 0) -> str:
    """Every so-many-th content word of a text (a long one, here) replaced by one of the pool."""
    count, choice = itertools.count(1), random.Random(seed).choice
    return re.sub(r"\w{5,}", lambda m: m[0] if next(count) % every else choice(pool), text)


def permuted(text: str, seed: int) -> str:
    """The content words (the long ones, here) of a text exchanged with one another."""
    long = iter(shuffled(re.findall(r"\w{5,}", text), seed))
    return re.sub(r"\w{5,}", lambda _: next(long), text)


def markov(pool: list[str], size: int, seed: int) -> str:
    """Words that follow each other as some two words of the pool do."""
    follow, choice = {}, random.Random(seed).choice
    for one, two in itertools.pairwise(pool):
        follow.setdefault(one, []).append(two)
    text = [choice(pool)]
    while len(text) < size:
        text.append(choice(follow.get(text[-1], pool)))
    return " ".join(text) + "."


def hacks(task: str, source: str, honest: tuple[str, str], other: tuple[str, str], seed: int = 0):
    """{name: pair} of what can be done without writing. honest and other are pairs of texts, other
    to another source. Those of `remaining` score well now and then."""
    small, large = (20, 50) if task == "tldr" else (140, 160)
    one, two = honest
    pool, keys, quotes = words(source), keywords(source), sentences(source)
    mixed, stray = shuffled(pool, seed), shuffled(keys, seed)
    listed = [f"{word}," for word in keys]
    stuffed = [f"{o} {a} {b}," for o, a, b in zip(itertools.cycle(OPENERS), keys, stray)]
    of_the = [f"the {a} of the {b} and" for a, b in itertools.pairwise(keys)]
    babble = [f"I want the {a} and he has the {b}." for a, b in itertools.pairwise(stray)]
    quoted = [f"{o} {q}" for o, q in zip(OPENERS, chunks(pool, 4, seed), strict=False)]
    opened = [f"{o} {q}" for o, q in zip(OPENERS, quotes[1:], strict=False)]
    changed = [f"{quotes[0].strip(' .')} {end}." for end in ("today", "now", "again", "here")]
    late = " ".join(pool[len(pool) // 2 :] + pool[: len(pool) // 2])
    *template, frame = TEMPLATES[task]
    found = {
        "empty": ("", ""),
        "blank": (" \n\t ", "\n\n"),
        "first agent silent": ("", two),
        "second agent silent": (one, ""),
        "salad": SALAD,
        "salad, long": (cycle([SALAD[0]], small), cycle([SALAD[1]], large)),
        "connectors": (cycle([CONNECTORS], small), cycle([CONNECTORS], large)),
        "filler": (cycle([FILLER], small), cycle([FILLER], large)),
        "punctuation and emoji": ("... !!! 😞 " * small, "🙏 -- ?! " * large),
        "template": tuple(map(flat, template)),
        "template with keywords": (
            cycle([fill(frame, keys)], small),
            cycle([fill(frame, keys, 4)], large),
        ),
        "template with stray keywords": (
            cycle([fill(frame, stray)], small),
            cycle([fill(frame, stray, 4)], large),
        ),
        "source copied": cut(pool, small, large),
        "source sentences copied": (quotes[0], " ".join(quotes[1:4])),
        "source sentences, openers": (quotes[0], cycle(opened, large)),
        "source, every third word new": (
            replaced(" ".join(pool[:small]), 3, UNRELATED),
            replaced(cycle([late], large), 3, UNRELATED),
        ),
        "source, every third word left out": cut(
            [word for i, word in enumerate(pool) if i % 3], small, large
        ),
        "source, every third word because": cut(
            " because ".join(chunks(pool, 2, None)).split(), small, large
        ),
        "source in pieces of three": cut(" ".join(chunks(pool, 3, seed)).split(), small, large),
        "source in pieces of six": cut(" ".join(chunks(pool, 6, seed)).split(), small, large),
        "source shuffled": cut(mixed, small, large),
        "source as a Markov chain": (markov(pool, small, seed), markov(pool, large, seed + 1)),
        "quotes and openers": (cycle(quoted, small), cycle(quoted[::-1], large)),
        "partner copied": (two, two),
        "partner copied twice": (one, f"{one} {one}"),
        "partner copied, filler": (one, f"{one} {FILLER}"),
        "partner copied, connectors": (one, f"{one} {CONNECTORS}"),
        "partner copied, template": (one, cycle([one, template[1]], large)),
        "partner in other words": (
            one,
            f"{replaced(one, 3, UNRELATED, seed)} {replaced(one, 2, UNRELATED, seed + 1)}",
        ),
        "padding": (one, cycle([one, FILLER], large)),
        "keywords": cut(keys, small, large),
        "keywords, commas": (cycle(listed[:small], small), cycle(listed, large)),
        "keywords, connectors": (cycle(stuffed, small), cycle(stuffed, large)),
        "keywords, of the": (cycle(of_the, small), cycle(of_the, large)),
        "keywords, I want": (cycle(babble, small), cycle(babble[::-1], large)),
        "keywords after a sentence": (one, f"{sentences(two)[0]} {', '.join(stray[:20])}."),
        "honest, shuffled": tuple(" ".join(shuffled(text.split(), seed)) for text in honest),
        "honest, reversed": tuple(" ".join(text.split()[::-1]) for text in honest),
        "one sentence repeated": (cycle(quotes[:1], small), cycle(quotes[:1], large)),
        "honest sentence repeated": (one, cycle(sentences(two)[:1], large)),
        "small changes": (cycle(changed, small), cycle(changed, large)),
        "new nouns, same sentence": (
            one,
            cycle([replaced(sentences(two)[0], 1, keys, k) for k in range(8)], large),
        ),
        "another source": other,
        "second agent off topic": (one, other[1]),
        "first agent off topic": (other[0], two),
        "far too long": (cycle([two], 2000), cycle([one, two], 3000)),
        "one word a line": tuple("\n".join(text.split()) for text in cut(pool, small, large)),
        "markup": tuple(
            f"<p>{text.replace(' ', '</b> <b>')}</p>" for text in cut(pool, small, large)
        ),
    }
    remaining = {
        "honest, content words exchanged": tuple(permuted(text, seed) for text in honest),
        "honest, shuffled in sentences": tuple(
            " ".join(
                " ".join(shuffled(s.strip(".?!").split(), seed)) + "." for s in sentences(text)
            )
            for text in honest
        ),
        "source, every second word new": (
            replaced(" ".join(pool[:small]), 2, UNRELATED),
            replaced(cycle([late], large), 2, UNRELATED),
        ),
        "short frames with keywords": (
            cycle([fill(SHORT_FRAMES, keys)], small),
            cycle([fill(SHORT_FRAMES, keys, 4)], large),
        ),
    }
    return found, remaining


def _corpus(task: str):
    return (HONEST_TLDR, POSTS) if task == "tldr" else (HONEST_ARXIV, ABSTRACTS)


def honest(task: str) -> list[tuple[str, str, tuple[str, str]]]:
    """(name, source, responses)"""
    pairs, sources = _corpus(task)
    return [(name, flat(sources[key]), tuple(map(flat, texts))) for name, key, *texts in pairs]


def degenerate(task: str, remaining: bool = False, seed: int = 0):
    """(name, source, responses): those that no reward should like, or the remaining ones."""
    pairs, sources = _corpus(task)
    first = {key: tuple(map(flat, texts)) for _, key, *texts in reversed(pairs)}
    return [
        (f"{key}: {name}", flat(source), pair)
        for key, source in sources.items()
        for name, pair in hacks(task, flat(source), first[key], first[NEIGHBOUR[key]], seed)[
            remaining
        ].items()
    ]
