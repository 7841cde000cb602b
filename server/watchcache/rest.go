package watchcache

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
)

// Values that nobody has asked for lately rest: they are kept as what is different from a similar one. Objects of a kind
// are made by the same few clients from the same few templates, and those next to each other by key mostly from the
// same one: a server with 100,000 pods of one template, 5.5 KB each, takes 128 MiB instead of 1,098. Asking for a value
// at rest costs a few microseconds, and does not wake it up: lists read everything, and would leave nothing at rest.
//
// Blocks of neighbours would compress as well, but to read one value all of a block would have to be unpacked. Values that
// are compressed each by itself do not know how alike they are.

// body is a value: as it is, or as the difference from a model.
type body struct {
	bytes []byte
	model *model // nil: the bytes are the value
}

func (b *body) value() []byte {
	if b.model == nil {
		return b.bytes
	}
	v, err := b.model.reader.Decode(nil, b.bytes)
	if err != nil {
		panic(fmt.Sprintf("watchcache: a value at rest cannot be read: %v", err)) // it was written by us, into memory
	}
	return v
}

// model is a value that others are kept as differences from. It lives as long as one of them.
type model struct {
	text   []byte
	reader *s2.Dict // writing through it would tie tables of 32 KiB to it
}

// slack is room behind a model's text that lets the dictionary use it without a copy.
const slack = 16

func newModel(text []byte) *model {
	own := append(make([]byte, 0, len(text)+slack), text...)
	return &model{own, s2.MakeDict(own, nil)}
}

const (
	// restEvery is how long a value may go unread: it rests after one to two times that.
	restEvery = 15 * time.Second
	// leastAtRest: smaller values are not worth it; they are mostly those that change all the time.
	leastAtRest = 512
	// triedModels is how many models a value is compared with.
	triedModels = 4
	// restStep is how many values are put to rest before others may use the processor.
	restStep = 128
	restGap  = time.Millisecond
)

// rests puts values to rest until ctx ends.
func (c *Cache) rests(ctx context.Context) {
	for sleep(ctx, restEvery) {
		for _, k := range c.Kinds() {
			k.rest(ctx)
		}
	}
}

// rest puts those values of the newest state to rest that nobody has asked for since it came by last.
func (k *Kind) rest(ctx context.Context) {
	s := k.Snapshot()
	k.mu.Lock()
	unchanged := s.rev != 0 && k.events.Load() == k.restedAt && !k.restless
	k.restedAt = k.events.Load()
	k.mu.Unlock()
	if unchanged {
		return
	}
	var p presser
	restless, worked := false, 0
	for o := range s.Range("", "") {
		switch {
		case o.size < leastAtRest:
		case o.read.Swap(false):
			restless = true
		default:
			if !p.press(o) {
				continue
			}
			if worked++; worked%restStep == 0 && !sleep(ctx, restGap) {
				return
			}
		}
	}
	k.mu.Lock()
	k.restless = restless
	k.mu.Unlock()
}

// presser puts values to rest, in the order of their keys.
type presser struct {
	models  []writingModel // the one that fitted last is the first
	scratch []byte
	misses  int // values in a row that fitted no model
	skipped int // values that were left as they are since then
}

type writingModel struct {
	*model
	writer *s2.Dict // made when it is needed
}

// press puts an object's value to rest if that is worth it. It tells whether it had to try.
func (p *presser) press(o *Object) bool {
	b := o.body.Load()
	if b.model != nil {
		p.know(b.model)
		return false
	}
	if o.restless {
		return false
	}
	best, fits := p.fitting(b.bytes)
	if p.misses++; fits {
		p.misses = 0
	}
	if !fits && len(b.bytes) <= s2.MaxDictSize {
		p.know(newModel(b.bytes)) // those that follow may be like this one
	}
	if best.model == nil {
		o.restless = true
		return true
	}
	o.body.Store(&best)
	return true
}

// These bound what a fill spends on values that are like no other: after so many in a row only one in so many is tried, until one fits. The
// others are tried when they have rested.
const missesInARow, triedAfterMisses = 16, 32

// pressEarly puts a value to rest that nobody has asked for yet, unless those before it show that it is not worth the time.
func (p *presser) pressEarly(o *Object) {
	if o.size < leastAtRest {
		return
	}
	if p.misses >= missesInARow && p.skipped < triedAfterMisses {
		p.skipped++
		return
	}
	p.skipped = 0
	p.press(o)
}

// know makes a model the first to be tried.
func (p *presser) know(m *model) {
	if len(p.models) > 0 && p.models[0].model == m {
		return
	}
	w := writingModel{model: m}
	if i := slices.IndexFunc(p.models, func(w writingModel) bool { return w.model == m }); i >= 0 {
		w = p.models[i]
		p.models = slices.Delete(p.models, i, i+1)
	} else if len(p.models) == triedModels {
		p.models = p.models[:triedModels-1]
	}
	p.models = slices.Insert(p.models, 0, w)
}

// fitting finds the model with the least difference; none if that is more than three quarters of the value. It fits if it
// is a quarter at most.
func (p *presser) fitting(value []byte) (best body, fits bool) {
	size := len(value) * 3 / 4
	for i := range p.models {
		m := &p.models[i]
		if m.writer == nil {
			m.writer = s2.MakeDict(m.text, nil)
		}
		p.scratch = m.writer.Encode(p.scratch[:cap(p.scratch)], value)
		if len(p.scratch) >= size {
			continue
		}
		size = len(p.scratch)
		best = body{bytes.Clone(p.scratch), m.model}
		if fits = size <= len(value)/4; fits {
			p.know(m.model)
			break
		}
	}
	return best, fits
}
