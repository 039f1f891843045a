"""Attributes of generated products, and what people say instead."""

from __future__ import annotations

from functools import cache

# The attribute, then what people say instead, in the form that follows the product's name.
_ATTRIBUTES = """
non slip | with a good grip
machine washable | that can go in the washer
moisture wicking | that keeps me dry when i sweat
breathable mesh | that lets air through
arch support | that supports the arch of my foot
memory foam | that is cushioned and takes my shape
water resistant | that can take some rain
slim fit | that fits close to the body
long sleeve | that covers my arms
fleece lined | that is warm inside
elastic waistband | with a stretchy waist
deep pockets | with room to carry things
wrinkle free | that needs no ironing
polarized lenses | that cuts glare
scratch proof | that does not get scratched
hypoallergenic | for someone with allergies
quick drying | that dries fast
reinforced stitching | that does not come apart at the seams
vegan leather | without animal hide
cruelty free | that was not tested on animals
paraben free | without parabens
fragrance free | that does not smell of anything
dermatologist tested | that skin doctors have approved
long lasting | that stays on all day
sulfate free | without sulfates
natural ingredients | made from plants
anti aging | against wrinkles
tea tree oil | made with tea tree
hyaluronic acid | that hydrates deeply
travel friendly | that i can take on a trip
oil control | for greasy skin
color safe | that is fine for dyed hair
heat protection | that guards against hot tools
sun protection | that blocks the sun
fast charging | that charges in no time
noise cancelling | that shuts out the surroundings
plug and play | that works without setting anything up
gold plated | with golden contacts
high resolution | with a sharp picture
low latency | without any lag
wall mountable | that can hang on the wall
voice controlled | that i can talk to
energy efficient | that uses little power
shock absorbing | that survives a fall
dust proof | that keeps dust out
wide compatibility | that works with all my devices
braided cable | with a cord that does not tangle
stereo sound | with sound from both sides
easy assembly | that is put together in minutes
solid wood | made from real timber
stain resistant | that does not show spills
space saving | for a tiny apartment
scandinavian style | with a nordic look
blackout lining | that keeps the room dark
anti fade | that keeps its color in the sun
eco friendly | that is good for the planet
handmade | made by hand
corrosion resistant | that does not corrode
adjustable height | that can go up and down
soft plush | that is cuddly
heavy duty | that can take abuse
foldable frame | that folds flat
dishwasher safe | that can go in the dishwasher
bpa free | without bpa
nonstick coating | that nothing sticks to
leak proof | that does not drip
stainless body | made from steel
oven safe | that can go in the oven
ergonomic handle | that is comfortable to hold
double walled | that keeps drinks hot
lid included | that comes with a cover
auto shutoff | that switches itself off
gluten free | without gluten
sugar free | without sugar
usda organic | grown organically
non gmo | without modified crops
low sodium | with little salt
high protein | with lots of protein
keto friendly | for a ketogenic diet
dairy free | without milk
fair trade | that was traded fairly
kosher certified | that is kosher
resealable bag | in a bag that closes again
freshly roasted | that was roasted recently
whole grain | made from the full kernel
nut free | for someone who cannot eat nuts
chew resistant | that survives teeth
vet recommended | that vets suggest
odor control | that keeps smells away
reflective strips | that is seen at night
washable cover | with a cover that comes off for cleaning
escape proof | that my pet cannot get out of
gentle on paws | that does not hurt the feet
calming effect | that soothes nervous animals
splash free | that keeps the floor dry
raised edges | with a rim to lean on
ultra light | that weighs next to nothing
wind resistant | that stands in a storm
uv coated | that the sun cannot harm
insulated layer | that holds the temperature
quick release | that comes off in a second
carbon frame | made from carbon
ripstop fabric | that does not tear
tool free setup | that needs no tools
compact storage | that packs small
anti fog | that does not mist up
padded straps | that is soft on the shoulders
emergency whistle | with something to call for help
"""


@cache
def phrases() -> dict[str, tuple[str, ...]]:
    """Attribute -> the ways to say it after the product's name."""
    lines = [line.split(" | ") for line in _ATTRIBUTES.strip().splitlines()]
    return {name: tuple(others) for name, *others in lines}
