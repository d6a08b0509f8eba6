"""The words of the embedded corpus, each with the forms that no rule gives.

A word of one language has one counterpart in the other, so that a sentence
made of these words has exactly one translation.
"""

from keras_transformer.text.grammar.words import (
    Phrase,
    Profession,
    Verb,
    read_adjective,
    read_noun,
    read_place,
    read_verb,
    rows,
)

# A noun: English, German, gender, German plural, kinds. A slash gives the
# irregular English plural, and the oblique form of the n-declension.
NOUNS = rows(
    read_noun,
    """
    man/men Mann m Männer person
    woman/women Frau f Frauen person
    child/children Kind n Kinder person
    boy Junge/Jungen m Jungen person
    girl Mädchen n Mädchen person
    neighbour Nachbar/Nachbarn m Nachbarn person
    colleague Kollege/Kollegen m Kollegen person
    customer Kunde/Kunden m Kunden person
    guest Gast m Gäste person
    friend Freund m Freunde person
    student Student/Studenten m Studenten person
    teacher Lehrer m Lehrer person
    doctor Arzt m Ärzte person
    father Vater m Väter parent
    mother Mutter f Mütter parent
    uncle Onkel m Onkel parent
    aunt Tante f Tanten parent
    grandmother Großmutter f Großmütter parent
    brother Bruder m Brüder kin
    sister Schwester f Schwestern kin
    son Sohn m Söhne kin
    daughter Tochter f Töchter kin
    dog Hund m Hunde animal
    cat Katze f Katzen animal
    horse Pferd n Pferde animal
    bird Vogel m Vögel animal
    book Buch n Bücher text,small,gift
    newspaper Zeitung f Zeitungen text,small
    letter Brief m Briefe text,small,mail,written
    story Geschichte f Geschichten text,tale,written
    novel Roman m Romane text,written
    film Film m Filme show
    picture Bild n Bilder thing,gift
    key Schlüssel m Schlüssel thing,small
    umbrella Regenschirm m Regenschirme thing,small
    camera Kamera f Kameras thing,gift
    bag Tasche f Taschen thing,small,gift
    clock Uhr f Uhren thing,gift,device
    present Geschenk n Geschenke thing,mail
    flower Blume f Blumen plant,gift
    computer Computer m Computer thing,device,power
    radio/radios Radio n Radios thing,device,power
    lamp Lampe f Lampen thing,power
    chair Stuhl m Stühle thing,surface
    table Tisch m Tische thing,surface
    bed Bett n Betten thing,surface
    shelf/shelves Regal n Regale thing,surface
    car Auto n Autos thing,vehicle
    bicycle Fahrrad n Fahrräder thing,vehicle
    bus Bus m Busse ride
    train Zug m Züge ride
    ship Schiff n Schiffe ride
    door Tür f Türen opening
    window Fenster n Fenster opening
    box Kiste f Kisten opening
    shirt Hemd n Hemden clothes
    coat Mantel m Mäntel clothes
    dress Kleid n Kleider clothes
    jacket Jacke f Jacken clothes
    hat Hut m Hüte clothes
    shoe Schuh m Schuhe clothes
    apple Apfel m Äpfel food,sweet
    egg Ei n Eier food,cooked
    cake Kuchen m Kuchen food,sweet
    potato Kartoffel f Kartoffeln food,cooked
    sausage Wurst f Würste food
    """,
)

# Nouns that are used without an article and have no plural here.
MASS_NOUNS = rows(
    read_noun,
    """
    bread Brot n - meal
    cheese Käse m - meal
    meat Fleisch n - meal,cooked
    rice Reis m - meal,cooked
    fruit Obst n - meal,sweet
    soup Suppe f - meal,cooked
    tea Tee m - drink
    coffee Kaffee m - drink
    milk Milch f - drink
    water Wasser n - drink
    juice Saft m - drink
    beer Bier n - drink
    German Deutsch n - language
    English Englisch n - language
    music Musik f - sound
    """,
)

# A place: a noun as above, the English preposition and the German one of
# being there, the German one of going there.
PLACES = rows(
    read_place,
    """
    school Schule f Schulen building,indoor,goal at in in
    park Park m Parks building,open,goal in in in
    garden Garten m Gärten building,open,goal in in in
    city Stadt f Städte building,town,goal in in in
    village Dorf n Dörfer building,town,goal in in in
    kitchen Küche f Küchen building,indoor,goal in in in
    library Bibliothek f Bibliotheken building,indoor,goal in in in
    museum Museum n Museen building,public,goal in in in
    cinema Kino n Kinos building,public,goal at in in
    theatre Theater n Theater building,public,goal at in in
    hotel Hotel n Hotels building,public,stop at in zu
    restaurant Restaurant n Restaurants building,public,goal at in in
    office Büro n Büros building,indoor,goal in in in
    church Kirche f Kirchen building,public,goal in in in
    house Haus n Häuser building,indoor in in in
    station Bahnhof m Bahnhöfe building,stop,goal at an zu
    airport Flughafen m Flughäfen building,stop,goal at an zu
    """,
)

CITIES = (
    Phrase("Berlin", "Berlin"),
    Phrase("Munich", "München"),
    Phrase("Vienna", "Wien"),
    Phrase("Cologne", "Köln"),
    Phrase("London", "London"),
)

NAMES = (("Anna", "f"), ("Maria", "f"), ("Peter", "m"), ("Paul", "m"))

# A verb: English (a slash gives an irregular past), particle, German (a bar
# ends the separable prefix), the present with er where it is irregular (and
# ich before it, after a slash, if that is too), participle, the verb of the
# perfect, kinds of objects.
VERBS = rows(
    read_verb,
    """
    read/read - lesen liest gelesen haben text
    write/wrote - schreiben - geschrieben haben written
    buy/bought - kaufen - gekauft haben thing,plant,clothes,food,meal
    eat/ate - essen isst gegessen haben food,meal
    cook - kochen - gekocht haben cooked
    drink/drank - trinken - getrunken haben drink
    see/saw - sehen sieht gesehen haben person,animal,building,ride,show
    visit - besuchen - besucht haben person,parent,kin
    meet/met - treffen trifft getroffen haben person,kin
    look for suchen - gesucht haben small,animal,clothes
    take/took - nehmen nimmt genommen haben ride
    repair - reparieren - repariert haben vehicle,device
    wash - waschen wäscht gewaschen haben clothes,vehicle
    clean - putzen - geputzt haben opening,vehicle
    paint - malen - gemalt haben animal,ride
    learn - lernen - gelernt haben language
    speak/spoke - sprechen spricht gesprochen haben language
    hear/heard - hören - gehört haben sound,animal
    call - an|rufen - angerufen haben person,parent,kin
    invite - ein|laden lädt eingeladen haben person,parent,kin
    pick up ab|holen - abgeholt haben person,kin
    bring/brought along mit|bringen - mitgebracht haben gift,food,drink
    open - auf|machen - aufgemacht haben opening
    close - zu|machen - zugemacht haben opening
    turn on ein|schalten - eingeschaltet haben power
    turn off aus|schalten - ausgeschaltet haben power
    try on an|probieren - anprobiert haben clothes
    look at an|sehen sieht angesehen haben person,animal
    """,
)

# What does not happen again and again, and is not planned.
EVENT_VERBS = rows(
    read_verb,
    """
    sell/sold - verkaufen - verkauft haben thing,clothes,vehicle
    find/found - finden - gefunden haben small,animal,clothes
    forget/forgot - vergessen vergisst vergessen haben small,clothes
    lose/lost - verlieren - verloren haben small
    """,
)

# What is so for longer, and is never said of a point in time here.
STATIVE_VERBS = rows(
    read_verb,
    """
    know/knew - kennen - gekannt haben person,kin,text,show,building
    like - mögen mag/mag gemocht haben person,animal,text,meal,drink
    need - brauchen - gebraucht haben small,power,clothes,vehicle
    have/had - haben hat gehabt haben thing,clothes,animal
    """,
)

# A person in the dative and a thing in the accusative.
GIVING_VERBS = rows(
    read_verb,
    """
    give/gave - geben gibt gegeben haben gift,food,small
    show - zeigen - gezeigt haben gift,clothes,vehicle
    send/sent - schicken - geschickt haben mail
    tell/told - erzählen - erzählt haben tale
    bring/brought - bringen - gebracht haben gift,drink,food
    """,
)

# A person in the dative alone.
DATIVE_VERBS = rows(
    read_verb,
    """
    help - helfen hilft geholfen haben person,parent,kin
    thank - danken - gedankt haben person,parent,kin
    answer - antworten - geantwortet haben person,parent,kin
    follow - folgen - gefolgt sein person,kin
    listen to zu|hören - zugehört haben person,parent,kin
    """,
)

# No object, but a place; the last field is the kinds of places.
PLACE_VERBS = rows(
    read_verb,
    """
    work - arbeiten - gearbeitet haben building
    wait - warten - gewartet haben building
    sleep/slept - schlafen schläft geschlafen haben open,indoor
    dance - tanzen - getanzt haben open,town,public
    sing/sang - singen - gesungen haben open,public
    play - spielen - gespielt haben open,indoor
    stay - bleiben - geblieben sein open,town,indoor
    shop/shopped - ein|kaufen - eingekauft haben town
    arrive - an|kommen - angekommen sein stop
    """,
)

# No object and no place.
PLAIN_VERBS = rows(
    read_verb,
    """
    laugh - lachen - gelacht haben -
    cry - weinen - geweint haben -
    swim/swam - schwimmen - geschwommen sein -
    come/came back zurück|kommen - zurückgekommen sein -
    get/got up auf|stehen - aufgestanden sein -
    wake/woke up auf|wachen - aufgewacht sein -
    """,
)

BE = Verb(
    *("be", "is", "was", "", "", "sein", "bin", "bist", "ist", "gewesen"),
    *("sein", ()),
)
BELIEVE, BELONG, BEGIN, COME, DRIVE, GO, HOPE, KNOW, LIVE, PUT = rows(
    read_verb,
    """
    believe - glauben - geglaubt haben -
    belong to gehören - gehört haben person,kin
    begin/began - beginnen - begonnen haben -
    come/came - kommen - gekommen sein -
    drive/drove - fahren fährt gefahren sein -
    go/went - gehen - gegangen sein -
    hope - hoffen - gehofft haben -
    know/knew - wissen weiß/weiß gewusst haben -
    live - wohnen - gewohnt haben -
    put/put - legen - gelegt haben small
    """,
)
ASK, SAY, TALK, THINK, TRAVEL, TRY = rows(
    read_verb,
    """
    ask - fragen - gefragt haben -
    say/said - sagen - gesagt haben -
    talk - sprechen spricht gesprochen haben -
    think/thought - denken - gedacht haben -
    travel/travelled - reisen - gereist sein -
    try - versuchen - versucht haben -
    """,
)

# An adjective: English, its comparative, German (a slash gives the stem that
# the endings follow), its comparative, kinds of nouns that can be so.
ADJECTIVES = rows(
    read_adjective,
    """
    good better gut besser text,show,profession
    bad worse schlecht schlechter text,show,profession
    old older alt älter person,animal,text,thing,show,ride,building
    young younger jung jünger person,animal,profession
    new newer neu neuer text,thing,show,clothes,opening
    big bigger groß größer animal,thing,ride,building,opening,food
    small smaller klein kleiner animal,thing,ride,building,opening,food
    beautiful more schön schöner animal,thing,plant,ride,building,clothes,text
    expensive more teuer/teur teurer thing,clothes
    cheap cheaper billig billiger thing,clothes
    heavy heavier schwer schwerer thing,opening
    interesting more interessant interessanter text,show
    boring more langweilig langweiliger text,show
    long longer lang länger text,show,ride
    short shorter kurz kürzer text,show
    famous more berühmt berühmter person,show,public,town,profession
    friendly friendlier freundlich freundlicher person
    clever cleverer klug klüger person,animal
    rich richer reich reicher person
    poor poorer arm ärmer person
    strong stronger stark stärker person,animal
    fast faster schnell schneller animal,ride
    red redder rot röter thing,plant,clothes,opening
    blue bluer blau blauer thing,plant,clothes,opening
    green greener grün grüner thing,clothes,opening
    black blacker schwarz schwärzer thing,clothes,animal
    white whiter weiß weißer thing,plant,clothes,animal
    fresh fresher frisch frischer food,meal
    warm warmer warm wärmer drink,clothes
    cold colder kalt kälter drink
    sweet sweeter süß süßer sweet
    """,
)

# How a person can feel.
STATES = rows(
    read_adjective,
    """
    happy happier glücklich glücklicher person
    healthy healthier gesund gesünder person
    tired more müde/müd müder person
    ill more krank kränker person
    sad sadder traurig trauriger person
    hungry hungrier hungrig hungriger person
    """,
)

PROFESSIONS = tuple(
    Profession(*row.split())
    for row in (
        "student Student Studentin Studenten",
        "teacher Lehrer Lehrerin Lehrer",
        "doctor Arzt Ärztin Ärzte",
        "engineer Ingenieur Ingenieurin Ingenieure",
        "cook Koch Köchin Köche",
        "journalist Journalist Journalistin Journalisten",
        "lawyer Anwalt Anwältin Anwälte",
        "singer Sänger Sängerin Sänger",
        "author Autor Autorin Autoren",
        "gardener Gärtner Gärtnerin Gärtner",
        "dentist Zahnarzt Zahnärztin Zahnärzte",
        "pilot Pilot Pilotin Piloten",
        "farmer Bauer Bäuerin Bauern",
        "musician Musiker Musikerin Musiker",
        "artist Künstler Künstlerin Künstler",
        "architect Architekt Architektin Architekten",
    )
)

# Adverbials of time. Those of habit go with the present; OFTEN stands before
# the English verb.
OFTEN = (
    Phrase("often", "oft"),
    Phrase("always", "immer"),
    Phrase("sometimes", "manchmal"),
)
HABITS = (
    Phrase("every day", "jeden Tag"),
    Phrase("every morning", "jeden Morgen"),
    Phrase("every evening", "jeden Abend"),
    Phrase("every week", "jede Woche"),
    Phrase("every Monday", "jeden Montag"),
    Phrase("every weekend", "jedes Wochenende"),
)
PAST_TIMES = (
    Phrase("yesterday", "gestern"),
    Phrase("yesterday evening", "gestern Abend"),
    Phrase("last week", "letzte Woche"),
    Phrase("last weekend", "letztes Wochenende"),
    Phrase("two days ago", "vor zwei Tagen"),
    Phrase("on Monday", "am Montag"),
)
FUTURE_TIMES = (
    Phrase("tomorrow", "morgen"),
    Phrase("tomorrow evening", "morgen Abend"),
    Phrase("next week", "nächste Woche"),
    Phrase("next weekend", "nächstes Wochenende"),
    Phrase("today", "heute"),
    Phrase("on Sunday", "am Sonntag"),
)
