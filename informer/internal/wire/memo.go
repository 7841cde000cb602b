package wire

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"sync"
)

// memo remembers decoded parts by their bytes: those that came up at least twice, lately. It is bounded and has two
// halves: when the younger one is full it becomes the older one, and what is still in that then is forgotten.
type memo struct {
	mu         sync.Mutex
	young, old map[memoKey]*memoPart // guarded by mu
	size       int                   // guarded by mu: encoded bytes in young
	once       []uint32              // guarded by mu: hashes of parts that came up once, at the index that the hash says
}

type memoKey struct {
	field *fieldShape
	hash  uint64
}

type memoPart struct {
	encoded []byte
	value   reflect.Value
}

const (
	smallPart = 24        // a smaller part is decoded as fast as it is found
	largePart = 64 << 10  // a larger part would drive out too much
	memoHalf  = 128 << 10 // of encoded bytes; decoded they are about seven times as many
	onceKept  = 1024
)

var memoSeed = maphash.MakeSeed()

// find returns the value that the bytes of a field stand for, if it is known; in any case it returns their hash.
func (m *memo) find(field *fieldShape, encoded []byte) (reflect.Value, uint64) {
	key := memoKey{field, maphash.Bytes(memoSeed, encoded)}
	m.mu.Lock()
	known, ok := m.young[key]
	if !ok {
		if known, ok = m.old[key]; ok {
			m.keepLocked(key, known)
		}
	}
	m.mu.Unlock()
	if !ok || !bytes.Equal(known.encoded, encoded) {
		return reflect.Value{}, key.hash
	}
	return known.value, key.hash
}

// offer keeps a part that had to be decoded if it comes up for the second time. Most parts that come up once belong to
// one object alone, such as the status of a container.
func (m *memo) offer(p pending, value reflect.Value) {
	if len(p.run) > largePart {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.once == nil {
		m.once = make([]uint32, onceKept)
	}
	if place := &m.once[p.hash%onceKept]; *place != uint32(p.hash>>32) {
		*place = uint32(p.hash >> 32)
		return
	}
	own := reflect.New(value.Type()).Elem()
	own.Set(value)
	m.keepLocked(memoKey{p.field, p.hash}, &memoPart{encoded: bytes.Clone(p.run), value: own})
}

func (m *memo) keepLocked(key memoKey, known *memoPart) {
	if m.size += len(known.encoded); m.young == nil || m.size > memoHalf {
		m.old, m.young, m.size = m.young, map[memoKey]*memoPart{}, len(known.encoded)
	}
	m.young[key] = known
}
