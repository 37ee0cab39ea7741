package company

import (
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// closeDay ends a day at midnight: customers buy, rent is due and offers end. It then draws the market and
// the weather of the next day. m.Time is the first moment of the next day.
func closeDay(m world.Moment[State]) {
	s := m.State
	for _, name := range m.Names {
		b := s.Branches[name]
		for _, good := range goods() {
			s.sell(m, name, good)
		}
		b.Cash = max(0, b.Cash-rent)
		s.write(Line{Time: m.Time, Agent: name, Kind: LineClose, Amount: b.Cash})
	}
	s.Offers, s.Fair = []Offer{}, ""
	for _, good := range goods() {
		base := basePrice()[good]
		s.Market[good] = min(2*base, max(base/2, s.Market[good]+base*int64(m.Rand.IntN(21)-10)/100))
	}
	switch m.Rand.IntN(6) {
	case 0:
		s.delay(m.Time)
	case 1, 2:
		good := goods()[m.Rand.IntN(len(goods()))]
		at := m.Time + segno.SimTime(day)
		s.schedule(Event{At: at, Kind: EventFair, Good: good})
		s.write(Line{Time: m.Time, Kind: LineNews, Good: good, Due: at})
	}
}

// sell sells a good of a branch to customers. If the price is twice the market's, they buy the base
// quantity; if it is four times the market's, they buy nothing.
func (s *State) sell(m world.Moment[State], name, good string) {
	base := int64(2 + m.Rand.IntN(6))
	if s.Fair == good {
		base *= 2
	}
	b, usual := s.Branches[name], 2*s.Market[good]
	wanted := int(min(2*base, max(0, base*(2*usual-b.Prices[good])/usual)))
	sold := min(wanted, b.Stock[good])
	if wanted == 0 {
		return
	}
	revenue := int64(sold) * b.Prices[good]
	b.Stock[good] -= sold
	b.Cash += revenue
	s.write(Line{Time: m.Time, Agent: name, Kind: LineSale, Good: good, Quantity: sold, Wanted: wanted, Price: b.Prices[good], Amount: revenue})
}

// delay is the effect of a storm: each delivery arrives a day later.
func (s *State) delay(at segno.SimTime) {
	late := 0
	for i := range s.Queue {
		if s.Queue[i].Kind == EventDelivery {
			s.Queue[i].At += segno.SimTime(day)
			late++
		}
	}
	sortEvents(s.Queue)
	if late > 0 {
		s.write(Line{Time: at, Kind: LineStorm, Quantity: late})
	}
}

// dayOf returns the day, from 1, and the part of the day at a time.
func dayOf(t segno.SimTime) (n int, part string) {
	t = max(0, t) // a document may have any time
	parts := [...]string{"night", "morning", "afternoon", "evening"}
	return 1 + int(time.Duration(t)/day), parts[int(time.Duration(t)%day/tick)%len(parts)]
}
