"""Texts that the tests train tokenizers on."""

CORPUS = [
    "A man is riding a bicycle through the old town.",
    "Ein Mann fährt mit dem Fahrrad durch die Altstadt.",
    "Two dogs are playing in the snow near the house.",
    "Zwei Hunde spielen im Schnee in der Nähe des Hauses.",
    "The weather was better than the forecast, wasn't it?",
    "Das Wetter war besser als die Vorhersage, nicht wahr?",
] * 4
