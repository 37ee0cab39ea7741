package company

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// manual tells agents how to act.
const manual = `# Company

You lead a branch of a trading company. Your aim is cash. A day has four ticks of 6 hours:
night, morning, afternoon and evening. You act once in each tick; all actions of a tick are
applied together when it ends. At midnight customers buy from your stock, and you pay rent.
Customers compare your price with twice the supplier's price: a lower one sells more, and at
twice that nobody buys. Goods are beans, cups and honey. All money is in cents.

Actions. Any of them may also have "say": "…", which all agents read, at most 500 bytes:

- {"do": "order", "good": "beans", "quantity": 10}: buy from the supplier at the market
  price, at most 50 units. They arrive after 1 to 3 days; storms delay them.
- {"do": "price", "good": "beans", "price": 650}: set your price for customers
- {"do": "offer", "to": "Bo", "good": "cups", "quantity": 5, "price": 250}: offer goods to
  another branch until midnight, at a price per unit
- {"do": "accept", "offer": 12}: buy what another branch offers you
- {"do": "pass"}: do nothing
`

// Action is an action of an agent.
type Action struct {
	Do       Verb   `json:"do"`
	Good     string `json:"good,omitempty"`
	Quantity int    `json:"quantity,omitempty"`
	Price    int64  `json:"price,omitempty"`
	To       string `json:"to,omitempty"`
	Offer    int    `json:"offer,omitempty"`
	Say      string `json:"say,omitempty"`
}

// Verb is the kind of an [Action].
type Verb string

// The verbs.
const (
	DoOrder  Verb = "order"
	DoPrice  Verb = "price"
	DoOffer  Verb = "offer"
	DoAccept Verb = "accept"
	DoPass   Verb = "pass"
)

// check returns an error for an action that is malformed in every state.
func (a Action) check() error {
	require := func(isMet bool, text string) error {
		if isMet {
			return nil
		}
		return segno.Errorf(segno.KindInvalid, string(a.Do), "", "%s", text)
	}
	if a.Say != "" {
		if err := world.CheckText(a.Say); err != nil {
			return err
		}
	}
	hasGood, hasQuantity, hasPrice := slices.Contains(goods(), a.Good), isQuantity(a.Quantity), isPrice(a.Price)
	switch a.Do {
	case DoPass:
		return nil
	case DoOrder:
		return require(hasGood && hasQuantity, "it needs a good, and a quantity of 1 to 50")
	case DoPrice:
		return require(hasGood && hasPrice, "it needs a good, and a price of 1 to 100000 cents")
	case DoOffer:
		return require(hasGood && hasQuantity && hasPrice && a.To != "", "it needs another branch, a good, a quantity of 1 to 50 and a price")
	case DoAccept:
		return require(a.Offer > 0, "it needs the id of an offer")
	}
	return segno.Errorf(segno.KindInvalid, "act", string(a.Do), "unknown action").WithHint("order, price, offer, accept or pass")
}

func isQuantity(n int) bool    { return 0 < n && n <= maxOrder }
func isPrice(cents int64) bool { return 0 < cents && cents <= maxPrice }

// apply applies an action. If the action has become impossible, apply records it in the ledger as refused.
func apply(m world.Moment[State], name string, a Action) {
	if a.Say != "" && m.Say(name, a.Say) == nil {
		m.State.write(Line{Time: m.Time, Agent: name, Kind: LineSay, Note: a.Say})
	}
	s, you := m.State, m.State.Branches[name]
	line := Line{Time: m.Time, Agent: name, Good: a.Good, Quantity: a.Quantity, Price: a.Price}
	refuse := func(why string) {
		s.write(Line{Time: m.Time, Agent: name, Kind: LineRefused, Good: a.Good, Quantity: a.Quantity, Note: string(a.Do) + ": " + why})
	}
	switch a.Do {
	case DoOrder:
		cost := int64(a.Quantity) * s.Market[a.Good]
		if cost > you.Cash {
			refuse("too little cash")
			return
		}
		you.Cash -= cost
		at := segno.SimTime(time.Duration(m.Time).Truncate(day) + time.Duration(1+m.Rand.IntN(3))*day)
		s.schedule(Event{At: at, Kind: EventDelivery, Agent: name, Good: a.Good, Quantity: a.Quantity})
		line.Kind, line.Amount, line.Due = LineOrder, -cost, at
		s.write(line)
	case DoPrice:
		you.Prices[a.Good] = a.Price
		line.Kind = LinePrice
		s.write(line)
	case DoOffer:
		if s.Branches[a.To] == nil || a.To == name {
			refuse("no other branch has this name")
			return
		}
		o := Offer{ID: s.newID(), From: name, To: a.To, Good: a.Good, Quantity: a.Quantity, Price: a.Price}
		s.Offers = append(s.Offers, o)
		line.Kind, line.With, line.Offer = LineOffer, a.To, o.ID
		s.write(line)
	case DoAccept:
		s.accept(m.Time, name, a.Offer, refuse)
	}
}

// accept moves the goods and the money of an offer.
func (s *State) accept(at segno.SimTime, buyer string, id int, refuse func(string)) {
	i := slices.IndexFunc(s.Offers, func(o Offer) bool { return o.ID == id && o.To == buyer })
	if i < 0 {
		refuse("there is no such offer")
		return
	}
	o := s.Offers[i]
	from, to := s.Branches[o.From], s.Branches[buyer]
	cost := int64(o.Quantity) * o.Price
	switch {
	case from.Stock[o.Good] < o.Quantity:
		refuse(o.From + " has too few")
		return
	case to.Cash < cost:
		refuse("too little cash")
		return
	}
	s.Offers = slices.Delete(s.Offers, i, i+1)
	from.Stock[o.Good] -= o.Quantity
	to.Stock[o.Good] += o.Quantity
	from.Cash += cost
	to.Cash -= cost
	s.write(Line{Time: at, Agent: buyer, Kind: LineTrade, Good: o.Good, Quantity: o.Quantity, Price: o.Price, Amount: -cost, With: o.From, Offer: o.ID})
}
