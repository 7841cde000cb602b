package watchcache

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/millrace/millrace/internal/sleep"
)

// Values that were not read lately are packed: they are kept as the difference from a similar value. Objects of a kind
// are mostly made by few clients from few templates, and neighbours by key mostly come from the same template. A server
// with 100,000 pods of one template, 5.5 KB each, takes 128 MiB instead of 1,098. Reading a packed value costs a few
// microseconds and does not unpack it permanently: lists read everything, and would otherwise leave nothing packed.
//
// Compressing blocks of neighbours would save as much, but reading one value would unpack its whole block. Compressing
// each value by itself would not use that they are alike.

// body is a value: either as it is, or as the difference from a model.
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
		panic(fmt.Sprintf("watchcache: a packed value cannot be unpacked: %v", err)) // we wrote it ourselves, into memory
	}
	return v
}

// model is a value from which others are kept as differences. It lives as long as one of them.
type model struct {
	text   []byte
	reader *s2.Dict // writing through it would keep tables of 32 KiB with it
}

// slack is space behind a model's text, with which the dictionary can use the text without a copy.
const slack = 16

func newModel(text []byte) *model {
	own := append(make([]byte, 0, len(text)+slack), text...)
	return &model{own, s2.MakeDict(own, nil)}
}

const (
	// packInterval is how often values are packed. A value is packed once it was not read for one to two times that.
	packInterval = 15 * time.Second
	// minPacked: smaller values are not packed. They save little, and mostly change all the time.
	minPacked = 512
	// triedModels is how many models a value is compared with.
	triedModels = 4
	// packStep is how many values are packed before the goroutine yields the processor.
	packStep = 128
	packGap  = time.Millisecond
	// minPastPacked: smaller values are not packed once they are outdated. They leave the window soon, and there are
	// many of them.
	minPastPacked = 16 << 10
)

// packAll packs values until ctx ends.
func (c *Cache) packAll(ctx context.Context) {
	for sleep.For(ctx, packInterval) {
		for _, k := range c.Kinds() {
			k.pack(ctx)
		}
	}
}

// pack packs the values that were not read since its last call: those of the newest state, and the large ones that
// events keep in the window.
func (k *Kind) pack(ctx context.Context) {
	s := k.Snapshot()
	k.mu.Lock()
	unchanged := s.rev != 0 && k.events.Load() == k.packedAt && !k.unpacked
	k.packedAt = k.events.Load()
	k.mu.Unlock()
	if unchanged {
		return
	}
	p := packer{own: make(map[*Object]*model)}
	unpacked, worked := false, 0
	for o, newest := range k.packable(s) {
		switch {
		case o.read.Swap(false):
			unpacked = true
		default:
			if !p.pack(o, newest) {
				continue
			}
			if worked++; worked%packStep == 0 && !sleep.For(ctx, packGap) {
				return
			}
		}
	}
	k.mu.Lock()
	k.unpacked = unpacked
	k.mu.Unlock()
}

// packable returns the objects of a state that may be packed, and then the outdated ones, each with the newest version
// in the window.
func (k *Kind) packable(s Snapshot) iter.Seq2[*Object, *Object] {
	return func(yield func(o, newest *Object) bool) {
		for o := range s.Range("", "") {
			if o.size >= minPacked && !yield(o, nil) {
				return
			}
		}
		newest := make(map[string]*Object)
		for _, e := range slices.Backward(k.largePast()) {
			n := newest[e.Object.Key]
			if n == nil {
				n = e.Object
				newest[n.Key] = n
			}
			if !yield(e.Previous, n) {
				return
			}
		}
	}
}

// largePast returns the events of the window that keep a large outdated value.
func (k *Kind) largePast() []*Event {
	k.mu.Lock()
	h := k.history
	if h == nil || h.large == 0 {
		k.mu.Unlock()
		return nil
	}
	l := h.list.base
	k.mu.Unlock()
	var out []*Event
	for l = l.next.Load(); l != nil; l = l.next.Load() {
		if e := l.event.Load(); e != nil && e.keepsLarge() {
			out = append(out, e)
		}
	}
	return out
}

// packer packs values in the order of their keys.
type packer struct {
	models  []writingModel     // the model that fitted last is the first
	own     map[*Object]*model // models of objects that resemble no other
	scratch []byte
	misses  int // number of consecutive values that fitted no model
	skipped int // number of values that were not tried since then
}

type writingModel struct {
	*model
	writer *s2.Dict // made when it is needed
}

// pack packs an object's value if that saves enough. It reports whether it had to try. An outdated object comes with
// the newest version of it.
func (p *packer) pack(o, newest *Object) bool {
	if newest != nil && o.body.Load().model == nil && !o.incompressible {
		p.follow(newest)
	}
	b := o.body.Load()
	if b.model != nil {
		p.addModel(b.model)
		return false
	}
	if o.incompressible {
		return false
	}
	best, fits := p.bestModel(b.bytes)
	if p.misses++; fits {
		p.misses = 0
	}
	if !fits && len(b.bytes) <= s2.MaxDictSize {
		p.addModel(newModel(b.bytes)) // the values that follow may be similar to this one
	}
	if best.model == nil {
		o.incompressible = true
		return true
	}
	o.body.Store(&best)
	return true
}

// follow makes the model of an object the first to be tried, and the object its own model if it resembles no other.
func (p *packer) follow(o *Object) {
	b := o.body.Load()
	switch {
	case b.model != nil:
		p.addModel(b.model)
	case o.incompressible && len(b.bytes) <= s2.MaxDictSize:
		m := p.own[o]
		if m == nil {
			m = newModel(b.bytes)
			o.body.Store(&body{bytes: slices.Clip(m.text)}) // one text for both, without the slack
			p.own[o] = m
		}
		p.addModel(m)
	}
}

// These bound the time that a fill spends on values that resemble no other: after missesInARow of them only one in
// triedAfterMisses is tried, until one fits. The rest are tried later, when they have not been read for a while.
const missesInARow, triedAfterMisses = 16, 32

// packEarly packs a value that was just filled, unless the values before it show that packing saves nothing.
func (p *packer) packEarly(o *Object) {
	if o.size < minPacked {
		return
	}
	if p.misses >= missesInARow && p.skipped < triedAfterMisses {
		p.skipped++
		return
	}
	p.skipped = 0
	p.pack(o, nil)
}

// addModel makes a model the first to be tried.
func (p *packer) addModel(m *model) {
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

// bestModel finds the model with the smallest difference; none if that exceeds three quarters of the value. The model
// fits if the difference is at most a quarter of the value.
func (p *packer) bestModel(value []byte) (best body, fits bool) {
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
			p.addModel(m.model)
			break
		}
	}
	return best, fits
}
