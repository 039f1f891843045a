"""What the generated shop can sell: kinds of products, their attributes and options, and how people call them.

Plain data. Every kind's words are (nearly) its own, so that no other kind is taken for it; values of one option and
attributes of one kind are far enough apart that not even the original's loose matcher confuses them (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Kind:
    """One kind of product."""

    query: str
    """What one searches for to find it; also its name."""
    category: str
    """The department."""
    path: str
    """"Department › group › kind"."""
    heads: tuple[str, ...]
    """How titles call it; all of them are in every title."""
    uses: tuple[str, ...]
    """What it is for; some of them are in a title."""
    called: tuple[str, ...]
    """How people call it, in the form that follows "a" or "some"."""
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """(name of the option, name of its list in `VALUES`)."""
    prices: tuple[int, int]
    """Lowest and highest, in dollars."""
    unseen: str = ""
    """"valid_unseen" or "test" where no training goal is of this kind, else ""."""


VALUES: dict[str, tuple[str, ...]] = {
    "color": (
        *("black", "white", "navy", "sky blue", "forest green", "ruby red", "dusty pink", "beige", "charcoal"),
        *("purple", "burnt orange", "mustard", "teal", "khaki", "ivory", "chocolate", "maroon", "olive"),
    ),
    "metal": ("silver", "gold", "bronze", "copper", "nickel", "pewter", "graphite"),
    "size": ("s", "m", "l", "xl", "2xl", "3xl"),
    "shoe size": ("6", "7", "8", "9", "10", "11", "12"),
    "bed size": ("twin", "full", "queen", "king", "crib"),
    "pack": ("single", "2 pack", "3 pack", "4 pack", "6 pack", "8 pack"),
    "length": ("3 ft", "6 ft", "10 ft", "20 ft", "50 ft"),
    "capacity": ("32gb", "64gb", "128gb", "256gb", "512gb"),
    "flavor": ("vanilla", "cinnamon", "salted caramel", "mixed berry", "hazelnut", "ginger lime", "banana", "coconut"),
    "savory flavor": ("original", "sea salt", "smoked paprika", "garlic", "chili lime", "teriyaki", "cheddar"),
    "scent": ("unscented", "lavender", "citrus", "eucalyptus", "jasmine", "rose", "cedar"),
    "shade": ("fair", "porcelain", "honey", "almond", "espresso", "cocoa", "bisque"),
    "volume": ("250 ml", "500 ml", "750 ml", "1000 ml"),
    "weight": ("8 oz", "12 oz", "16 oz", "32 oz", "64 oz"),
    "animal size": ("toy", "small", "medium", "giant"),
    "people": ("solo", "couple", "family", "scout group"),
}

_ABOUT = {
    "fashion": ("Clothing, Shoes & Jewelry", "machine washable, moisture wicking, quick drying, reinforced stitching"),
    "beauty": ("Beauty & Personal Care", "cruelty free, paraben free, natural ingredients, travel friendly"),
    "electronics": ("Electronics", "fast charging, plug and play, wide compatibility, shock absorbing, dust proof"),
    "home": ("Home & Furniture", "easy assembly, eco friendly, handmade, stain resistant, anti fade, space saving"),
    "kitchen": ("Kitchen & Dining", "dishwasher safe, bpa free, ergonomic handle, stainless body, corrosion resistant"),
    "grocery": ("Grocery & Gourmet Food", "gluten free, usda organic, non gmo, resealable bag, kosher certified"),
    "pets": ("Pet Supplies", "vet recommended, odor control, chew resistant, washable cover, hypoallergenic"),
    "outdoors": ("Sports & Outdoors", "ultra light, wind resistant, uv coated, compact storage, heavy duty"),
}

DEPARTMENTS = tuple(_ABOUT)

# category | query | group | prices | options | unseen, then heads | uses | called, then attributes of its own
_KINDS = """
fashion | running shoes | Athletic Footwear | 30-160 | color=color, size=shoe size |
  Running Shoes, Jogging Sneakers, Marathon Trainers | Track, Sprint, Jogger | pair of running shoes, pair of sneakers
  non slip, breathable mesh, arch support, memory foam, water resistant, vegan leather
fashion | winter jackets | Outerwear | 40-280 | color=color, size=size |
  Winter Jacket, Puffer Coat, Hooded Parka | Snow, Blizzard, Skiing | winter jacket, warm coat
  water resistant, fleece lined, deep pockets, slim fit, long sleeve, wrinkle free
fashion | summer dresses | Womenswear | 18-120 | color=color, size=size |
  Summer Dress, Midi Gown, Floral Sundress | Wedding, Cocktail, Party | summer dress, light sundress
  elastic waistband, deep pockets, slim fit, wrinkle free, long sleeve, handmade
fashion | sunglasses | Eyewear | 12-190 | frame=metal, lens=color |
  Sunglasses, Aviator Shades, Driver Eyewear | Beach, Fisherman, Vacation | pair of sunglasses, pair of shades
  polarized lenses, scratch proof, uv coated, ultra light, vegan leather, anti fog
fashion | leather belts | Accessories | 10-90 | color=color, size=size | valid_unseen
  Dress Belt, Buckle Strap, Waist Girdle | Suit, Jeans, Trousers | belt for my trousers, waist belt
  vegan leather, scratch proof, quick release, handmade, heavy duty, water resistant
fashion | wool socks | Hosiery | 6-48 | color=color, pack=pack | test
  Wool Socks, Ankle Hosiery, Crew Stockings | Boots, Toes, Feet | pair of wool socks, pair of warm socks
  arch support, non slip, breathable mesh, fleece lined, hypoallergenic, memory foam
beauty | face moisturizers | Skin Care | 8-95 | scent=scent, volume=volume |
  Face Moisturizer, Skin Cream, Hydrating Lotion | Cheeks, Complexion, Pores | moisturizer for my face, skin cream
  fragrance free, dermatologist tested, hyaluronic acid, anti aging, oil control, sun protection
beauty | shampoos | Hair Wash | 6-60 | scent=scent, volume=volume |
  Shampoo, Scalp Cleanser, Hair Wash | Curls, Dandruff, Roots | bottle of shampoo, hair cleanser
  sulfate free, color safe, tea tree oil, oil control, dermatologist tested, fragrance free
beauty | lipsticks | Lip Makeup | 5-50 | shade=shade, pack=pack |
  Lipstick, Lip Gloss, Mouth Tint | Evening, Bridesmaid, Glamour | lipstick, lip color
  long lasting, fragrance free, hyaluronic acid, sun protection, dermatologist tested, color safe
beauty | hair dryers | Hair Tools | 18-230 | color=color, plug=metal |
  Hairdryer, Blow Drier, Salon Blower | Hairdresser, Diffuser, Barber | hairdryer, blow drier
  heat protection, auto shutoff, energy efficient, foldable frame, noise cancelling, long lasting
beauty | nail polishes | Nail Care | 4-40 | color=color, pack=pack | valid_unseen
  Nail Polish, Manicure Lacquer, Varnish Enamel | Fingers, Pedicure, Thumbs | nail polish, nail lacquer
  long lasting, fragrance free, scratch proof, dermatologist tested, anti fade, quick drying
beauty | body washes | Bath & Shower | 5-45 | scent=scent, volume=volume | test
  Body Wash, Shower Gel, Bath Foam | Bathtub, Soap, Sponge | body wash, shower gel
  sulfate free, fragrance free, tea tree oil, dermatologist tested, hyaluronic acid, oil control
electronics | usb cables | Computer Accessories | 5-48 | color=color, length=length |
  USB Cable, Charger Cord, Data Wire | Laptop, Port, Adapter | usb cable, charging cord
  gold plated, braided cable, low latency, heavy duty, energy efficient, corrosion resistant
electronics | bluetooth headphones | Audio | 20-320 | color=color, band=metal |
  Bluetooth Headphones, Wireless Earphones, Headset | Podcast, Commute, Bass | wireless headset, pair of headphones
  noise cancelling, stereo sound, foldable frame, low latency, voice controlled, memory foam
electronics | security cameras | Surveillance | 30-260 | color=color, memory=capacity |
  Security Camera, Surveillance Monitor, Video Doorbell | Burglar, Porch, Intruder | security camera
  high resolution, wall mountable, voice controlled, low latency, water resistant, energy efficient
electronics | computer tablets | Tablets | 80-640 | color=metal, memory=capacity |
  Tablet, Touchscreen Computer, Drawing Slate | Homework, Sketch, Reading | tablet, touchscreen computer
  high resolution, stereo sound, energy efficient, voice controlled, scratch proof, ultra light
electronics | smart watches | Wearables | 35-420 | case=metal, band=color | valid_unseen
  Smartwatch, Fitness Tracker, Wrist Band | Heartbeat, Pulse, Calories | smartwatch, fitness tracker
  water resistant, scratch proof, energy efficient, voice controlled, ultra light, gold plated
electronics | desk speakers | Speakers | 25-380 | color=color, cord=length | test
  Speaker, Loudspeaker Subwoofer, Soundbar | Television, Cinema, Karaoke | speaker for my desk, soundbar
  stereo sound, wall mountable, low latency, voice controlled, energy efficient, gold plated
home | bookcases | Storage Furniture | 50-430 | color=color, size=size |
  Bookcase, Bookshelf, Library Cabinet | Books, Magazines, Archive | bookcase, shelf for my books
  solid wood, adjustable height, wall mountable, scandinavian style, heavy duty, foldable frame
home | window curtains | Window Treatments | 15-130 | color=color, length=length |
  Curtain, Drapes, Window Panel | Daylight, Privacy, Bedroom | curtain, window drape
  blackout lining, machine washable, soft plush, wrinkle free, energy efficient, scandinavian style
home | bed sheets | Bedding | 20-170 | color=color, size=bed size |
  Bed Sheet, Pillowcase Linens, Mattress Bedding | Sleep, Duvet, Headboard | set of bed sheets, bedding set
  machine washable, wrinkle free, hypoallergenic, soft plush, moisture wicking, reinforced stitching
home | office chairs | Seating | 60-520 | color=color, size=size |
  Office Chair, Swivel Armchair, Task Seat | Boss, Study, Workplace | office chair, chair for my study
  adjustable height, memory foam, breathable mesh, heavy duty, foldable frame, arch support
home | area rugs | Floor Covering | 25-310 | color=color, size=size | valid_unseen
  Area Rug, Carpet, Floor Mat | Hallway, Nursery, Entrance | rug for the floor, carpet
  non slip, machine washable, soft plush, quick drying, scandinavian style, hypoallergenic
home | table lamps | Lighting | 15-150 | color=color, base=metal | test
  Table Lamp, Lantern, Nightstand Light | Bulb, Desk, Bedside | table lamp, bedside light
  energy efficient, adjustable height, voice controlled, scandinavian style, solid wood, foldable frame
kitchen | frying pans | Cookware | 15-140 | color=color, size=size |
  Frying Pan, Skillet, Saute Cookware | Omelet, Stove, Pancake | frying pan, skillet
  nonstick coating, oven safe, lid included, scratch proof, heavy duty, energy efficient
kitchen | coffee mugs | Drinkware | 6-60 | color=color, pack=pack |
  Coffee Mug, Tea Cup, Ceramic Tumbler | Latte, Cocoa, Breakfast | coffee mug, cup
  double walled, leak proof, lid included, handmade, scratch proof, insulated layer
kitchen | electric kettles | Small Appliances | 20-160 | color=color, volume=volume |
  Electric Kettle, Teapot, Water Boiler | Teabag, Noodles, Teatime | electric kettle, water boiler
  auto shutoff, double walled, leak proof, energy efficient, lid included, quick release
kitchen | kitchen knives | Cutlery | 12-210 | handle=color, pack=pack |
  Chef Knife, Cleaver Blade, Steak Cutlery | Butcher, Carving, Vegetables | kitchen knife, chef knife
  non slip, scratch proof, handmade, solid wood, heavy duty, quick release
kitchen | lunch boxes | Food Storage | 8-70 | color=color, volume=volume | valid_unseen
  Lunchbox, Bento Container, Meal Tin | School, Picnic, Leftovers | lunchbox, meal container
  leak proof, double walled, insulated layer, lid included, oven safe, compact storage
kitchen | cutting boards | Preparation | 10-110 | color=color, size=size | test
  Cutting Board, Chopping Block, Serving Platter | Cheese, Onions, Charcuterie | cutting board, chopping block
  non slip, scratch proof, solid wood, raised edges, handmade, eco friendly
grocery | coffee beans | Coffee | 8-75 | flavor=flavor, weight=weight |
  Coffee Beans, Espresso Roast, Arabica Brew | Barista, Grinder, Cappuccino | bag of coffee beans, espresso roast
  fair trade, freshly roasted, sugar free, dairy free, nut free, keto friendly
grocery | protein bars | Bars | 9-70 | flavor=flavor, pack=pack |
  Protein Bar, Snack Slab, Energy Bites | Workout, Bodybuilder, Lunchbreak | box of protein bars, energy snack
  high protein, sugar free, dairy free, keto friendly, nut free, whole grain
grocery | potato chips | Crisps | 4-45 | flavor=savory flavor, weight=weight |
  Potato Chips, Crisps, Tortilla Nachos | Dip, Salsa, Movie | bag of potato chips, bag of crisps
  low sodium, nut free, dairy free, sugar free, high protein, whole grain
grocery | breakfast cereals | Cereal | 5-55 | flavor=flavor, weight=weight |
  Cereal, Granola Oats, Muesli | Bowl, Morning, Spoon | box of cereal, bag of granola
  whole grain, sugar free, high protein, nut free, dairy free, low sodium
grocery | beef jerky | Dried Meat | 7-80 | flavor=savory flavor, weight=weight | valid_unseen
  Beef Jerky, Meat Sticks, Brisket Strips | Trail, Hunter, Cowboy | bag of beef jerky, pack of dried meat
  low sodium, high protein, sugar free, keto friendly, nut free, dairy free
grocery | green teas | Tea | 6-65 | flavor=flavor, weight=weight | test
  Green Tea, Matcha Leaves, Sencha Infusion | Ceremony, Whisk, Meditation | box of green tea, tin of matcha
  fair trade, sugar free, dairy free, keto friendly, nut free, freshly roasted
pets | dog beds | Beds | 18-150 | color=color, size=animal size |
  Dog Bed, Puppy Cushion, Kennel Pillow | Hound, Nap, Crate | bed for my dog, dog cushion
  memory foam, non slip, calming effect, raised edges, machine washable, soft plush
pets | cat litter boxes | Litter | 15-120 | color=color, size=animal size |
  Litter Box, Cat Toilet, Kitten Tray | Clumps, Scoop, Whiskers | litter box for my cat, cat toilet
  easy assembly, lid included, splash free, non slip, space saving, gentle on paws
pets | dog leashes | Walking | 8-55 | color=color, length=length |
  Dog Leash, Canine Lead, Harness Rope | Walker, Puller, Sidewalk | leash for my dog, dog lead
  reflective strips, ergonomic handle, shock absorbing, escape proof, heavy duty, quick release
pets | aquarium filters | Fish | 14-135 | color=color, hose=length |
  Aquarium Filter, Fish Pump, Tank Purifier | Goldfish, Turtle, Pond | filter for my aquarium, fish tank pump
  energy efficient, noise cancelling, leak proof, easy assembly, auto shutoff, splash free
pets | bird cages | Birds | 28-240 | color=color, size=animal size | valid_unseen
  Bird Cage, Parrot Aviary, Perch Stand | Canary, Parakeet, Feathers | cage for my bird, aviary
  easy assembly, escape proof, corrosion resistant, splash free, foldable frame, handmade
pets | pet water fountains | Feeding | 16-95 | color=color, volume=volume | test
  Pet Fountain, Drinking Dispenser, Hydration Bubbler | Thirst, Paws, Fur | water fountain for my pet
  leak proof, noise cancelling, energy efficient, auto shutoff, bpa free, splash free
outdoors | camping tents | Camping | 45-390 | color=color, size=people |
  Camping Tent, Canopy Shelter, Dome Camper | Campfire, Forest, Festival | tent for camping, camping shelter
  water resistant, ripstop fabric, tool free setup, insulated layer, reflective strips, foldable frame
outdoors | hiking backpacks | Packs | 25-220 | color=color, size=size |
  Hiking Backpack, Trekking Rucksack, Daypack | Mountain, Summit, Explorer | backpack for hiking, rucksack
  padded straps, water resistant, ripstop fabric, emergency whistle, deep pockets, reflective strips
outdoors | yoga mats | Fitness | 12-95 | color=color, thickness=size |
  Yoga Mat, Pilates Exercise, Stretching Pad | Asana, Stretch, Studio | yoga mat, exercise mat
  non slip, memory foam, eco friendly, quick drying, odor control, hypoallergenic
outdoors | bicycle helmets | Cycling | 22-190 | color=color, size=size |
  Bicycle Helmet, Bike Headgear, Cyclist Cap | Road, Peloton, Skateboard | bicycle helmet, bike helmet
  shock absorbing, reflective strips, padded straps, quick release, carbon frame, breathable mesh
outdoors | water bottles | Hydration | 8-60 | color=color, volume=volume | valid_unseen
  Water Bottle, Canteen Flask, Thermos | Hydration, Marathoner, Locker | water bottle, flask
  leak proof, bpa free, double walled, insulated layer, ergonomic handle, dishwasher safe
outdoors | swim goggles | Swimming | 9-75 | color=color, strap=size | test
  Swim Goggles, Diver Mask, Snorkel Glasses | Pool, Ocean, Triathlon | pair of swim goggles, diving mask
  anti fog, polarized lenses, leak proof, quick release, scratch proof, hypoallergenic
"""


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, in a fixed order."""
    lines = [[cell.strip() for cell in line.split("|")] for line in _KINDS.strip().splitlines()]
    return tuple(_kind(*lines[i : i + 3]) for i in range(0, len(lines), 3))


def _kind(what: list[str], words: list[str], own: list[str]) -> Kind:
    category, query, group, prices, options, unseen = what
    heads, uses, called = words
    department, common = _ABOUT[category]
    low, high = prices.split("-")
    pairs = [option.split("=") for option in _list(options)]
    return Kind(
        query=query,
        category=category,
        path=f"{department} › {group} › {query.title()}",
        heads=_list(heads),
        uses=_list(uses),
        called=_list(called),
        attributes=tuple(dict.fromkeys((*_list(own[0]), *_list(common)))),
        options=tuple((name, values) for name, values in pairs),
        prices=(int(low), int(high)),
        unseen=unseen,
    )


def _list(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(","))
