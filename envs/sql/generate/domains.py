"""The domains of generated databases, as data.

A line that is indented by two is one table: `tables noun rows | column | column …`; deeper lines go on with it. A
column is a name (or several, of which an instance takes one) and what it holds:

    @maker           a unique label made of word lists (`words.py`)
    = a, b, c        a category; earlier values are more frequent
    -> tables        a reference
    1..9             integers; `1.00..9.00` amounts with two decimals; `2020-01-01..2024-12-31` dates
    … ?20            about 20 % of the values are missing

Every table has an integer key `id` that is not written down.
"""

from __future__ import annotations

# Instances of these make `train` and `valid_seen`; the others are never seen in training.
SEEN = """
library
  authors author 14 | full_name/author_name @person | country/homeland = Norway, Kenya, Chile, Japan, Poland
    | birth_year 1931..1994 ?15
  books book 44 | title @title | genre/category = novel, poetry, essay, history, biography | author_id -> authors
    | pages/page_count 80..900 | price/list_price 5.00..60.00 | published/published_on 1990-01-01..2024-12-31 ?12
  members member 24 | full_name/member_name @person | city/town @@city | joined/joined_on 2015-01-01..2024-12-31
    | age 16..85 ?20
  loans loan 90 | book_id -> books | member_id -> members | borrowed/borrowed_on 2021-01-01..2024-12-31
    | days_kept 1..60 ?18 | status/loan_status = returned, late, lost

shop
  customers customer 26 | name/customer_name @person | city/town @@city
    | segment/customer_type = private, business, school | signed_up_on/sign_up_date 2018-01-01..2024-12-31
    | credit_limit 200..5000 ?20
  products product 30 | name/product_name @product
    | category/product_group = kitchen, garden, office, toys, lighting | price/unit_price 2.00..240.00
    | stock/units_in_stock 0..400 | weight 50..9000 ?15
  purchases purchase 80 | customer_id -> customers | product_id -> products | quantity/units 1..12
    | bought_on/purchase_date 2022-01-01..2024-12-31 | channel/sales_channel = web, store, phone
    | discount_percent 5..40 ?60

hospital
  departments department 8 | name/department_name @ward | floor/storey 1..9 | beds/bed_count 6..60
  doctors doctor 20 | full_name/doctor_name @person
    | specialty/field = surgery, cardiology, paediatrics, neurology, oncology | department_id -> departments
    | salary/yearly_salary 52000..190000 | hired/hired_on 2001-01-01..2023-12-31
  patients patient 36 | full_name/patient_name @person | blood_type = A, O, B, AB
    | born/birth_date 1938-01-01..2015-12-31 | city/town @@city ?10
  visits visit 90 | patient_id -> patients | doctor_id -> doctors | visited_on/visit_date 2022-01-01..2024-12-31
    | cost/charge 30.00..2400.00 | outcome/result = recovered, referred, admitted ?14 | minutes/duration 5..120

airline
  airports airport 14 | name/airport_name @place | country/nation = Brazil, Canada, Spain, India, Egypt
    | elevation/altitude 1..2400 | runways/runway_count 1..6
  aircraft aircraft 12 | model/model_name @machine | maker/manufacturer = Boeing, Airbus, Embraer
    | seats/seat_count 48..420 | range_km 1200..15000 ?12
  flights flight 80 | origin_id -> airports | aircraft_id -> aircraft
    | departed_on/flight_date 2023-01-01..2024-12-31 | distance_km/kilometres 180..12000
    | passengers/passenger_count 20..410 | status/flight_status = on time, delayed, cancelled | delay 5..300 ?55

university
  faculties faculty 7 | name/faculty_name @subject | building = North, South, Harbour, Hill
    | budget/yearly_budget 400000..9000000
  lecturers lecturer 20 | full_name/lecturer_name @person | faculty_id -> faculties
    | rank/position = lecturer, reader, professor | salary/yearly_salary 38000..140000
    | hired/hired_on 1995-01-01..2023-12-31
  courses course 32 | title/course_title @course | lecturer_id -> lecturers | credits/credit_points 2..12
    | level/course_level = introductory, intermediate, advanced | capacity/places 12..240 ?15
  enrolments enrolment 110 | course_id -> courses | student_name @@person | grade/final_grade 20..100 ?16
    | enrolled_on 2021-01-01..2024-12-31 | mode/attendance = campus, remote, evening

music
  labels label 8 | name/label_name @company | country/homeland = Iceland, Ghana, Cuba, Korea
    | founding_year/founded_year 1948..2012
  bands band 22 | name/band_name @band | label_id -> labels | genre/style = rock, jazz, folk, electronic, soul
    | formation_year/first_year 1965..2020 | members/member_count 1..9
  albums album 56 | title/album_title @title | band_id -> bands | released/released_on 1985-01-01..2024-12-31
    | tracks/track_count 6..22 | copies_sold/sales_count 400..980000 ?15 | format/medium = vinyl, cd, digital

restaurant
  cooks cook 16 | full_name/cook_name @person | station/speciality = grill, pastry, sauces, cold
    | hired/hired_on 2008-01-01..2023-12-31 | hourly_wage 14.00..48.00
  dishes dish 32 | name/dish_name @dish | course/menu_section = starter, main, dessert | cook_id -> cooks
    | price/menu_price 4.00..46.00 | calories/kilocalories 90..1400 ?18
  bookings booking 70 | guest_name @@person | party_size/guests 1..12
    | booked_on/booking_date 2023-01-01..2024-12-31 | area/dining_area = terrace, hall, bar
    | spent/bill_total 20.00..900.00 ?15 | dish_id -> dishes

football
  clubs club 12 | name/club_name @club | city/town @@city | founding_year/founded_year 1880..1998
    | stadium_seats 1800..64000
  players player 50 | full_name/player_name @person | club_id -> clubs
    | position/playing_position = midfielder, defender, forward, goalkeeper | age 17..38
    | market_value/estimated_value 50..42000 ?15 | goals/career_goals 0..180
  transfers transfer 50 | player_id -> players | fee/transfer_fee 0.50..70.00 ?25
    | moved_on/transfer_date 2016-01-01..2024-12-31 | kind/transfer_kind = purchase, loan, free

factory
  plants plant 8 | name/plant_name @place | region/area = north, south, east, west | opened/opened_year 1955..2015
    | workers/worker_count 40..2600
  machines machine 34 | name/machine_name @machine | plant_id -> plants
    | kind/machine_type = press, lathe, robot, furnace | installed/installed_on 2002-01-01..2023-12-31
    | power/kilowatts 5..900 ?12
  repairs repair 84 | machine_id -> machines | repaired_on/repair_date 2020-01-01..2024-12-31
    | cost/repair_cost 60.00..9800.00 | hours/downtime 1..90 ?18
    | cause/fault_cause = wear, overload, sensor, operator

cinema
  directors director 14 | full_name/director_name @person | country/homeland = France, Mexico, Iran, Korea, Italy
    | birth_year/year_of_birth 1935..1990 ?12
  films film 46 | title/film_title @title | director_id -> directors
    | genre/kind = drama, comedy, thriller, documentary | released/released_on 1980-01-01..2024-12-31
    | minutes/running_time 62..210 | budget 0.40..190.00 ?18
  screenings screening 96 | film_id -> films | hall/screen = red, blue, grand, studio
    | shown_on/screening_date 2023-01-01..2024-12-31 | tickets/tickets_sold 0..480
    | ticket_price/admission 6.00..19.00
"""

VALID_UNSEEN = """
museum
  artists artist 16 | full_name/artist_name @person | nationality/origin = Dutch, Peruvian, Greek, Nigerian
    | birth_year/year_of_birth 1840..1985 ?14
  exhibits exhibit 48 | title/exhibit_title @title | artist_id -> artists
    | material/technique = oil, bronze, paper, glass | acquired/acquired_on 1970-01-01..2024-12-31 ?10
    | insured_value/insurance 900..840000 | height_cm 8..420 ?15
  tours tour 70 | exhibit_id -> exhibits | guide_name @@person | held_on/tour_date 2022-01-01..2024-12-31
    | visitors/visitor_count 3..60 | language/spoken = English, French, Arabic, German

fleet
  depots depot 9 | name/depot_name @place | region/area = coast, valley, plateau | bays/bay_count 4..60
  vehicles vehicle 34 | plate/plate_number @plate | depot_id -> depots | fuel/fuel_type = diesel, electric, hydrogen
    | bought_on/purchase_date 2012-01-01..2024-06-30 | mileage/kilometres 2000..420000 | load_kg 300..22000 ?14
  trips trip 100 | vehicle_id -> vehicles | driver_name @@person | started_on/trip_date 2023-01-01..2024-12-31
    | distance_km/length_km 4..900 | fuel_cost/energy_cost 1.50..240.00 ?16
    | purpose/reason = delivery, pickup, service
"""

TEST = """
farm
  fields field 14 | name/field_name @place | soil/soil_type = clay, sand, loam | area_hectares/hectares 1.50..48.00
    | drainage_year 1960..2018 ?25
  crops crop 12 | name/crop_name @crop | season/sowing_season = spring, autumn, summer
    | days_to_harvest/growing_days 45..280 | seed_price/price_per_kilo 0.80..36.00
  harvests harvest 90 | field_id -> fields | crop_id -> crops | harvested_on/harvest_date 2018-01-01..2024-12-31
    | tonnes/crop_weight 0.40..95.00 | moisture_percent 8..34 ?20 | grade/quality = A, B, C

hotel
  hotels hotel 10 | name/hotel_name @place | city/town @@city | stars/star_rating 2..5
    | opened/opened_year 1920..2018
  rooms room 46 | code/room_code @plate | hotel_id -> hotels | kind/room_type = single, double, suite
    | nightly_rate/price_per_night 48.00..620.00 | floor/storey 1..14 | area_m2/square_metres 11..90 ?12
  stays stay 100 | room_id -> rooms | guest_name @@person | arrived_on/arrival_date 2022-01-01..2024-12-31
    | nights/night_count 1..21 | rating/guest_rating 1..10 ?25 | source/booked_through = website, agency, phone

observatory
  telescopes telescope 9 | name/telescope_name @machine | mirror_cm/aperture_cm 30..840
    | site/location = desert, summit, island | first_light/opened_year 1948..2019
  observers observer 18 | full_name/observer_name @person | institute/employer @@company
    | trained_on/training_date 2005-01-01..2023-12-31 ?12
  observations observation 110 | telescope_id -> telescopes | observer_id -> observers
    | observed_on/observation_date 2021-01-01..2024-12-31 | exposure/exposure_time 5..3600
    | target/target_kind = galaxy, nebula, comet, star, planet | seeing/blur 0.30..3.90 ?18
"""
