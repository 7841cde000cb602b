package wire

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"sync"
)

// partCache finds decoded parts by their bytes. It keeps those that occurred at least twice recently. It is bounded and
// has two halves: when recent is full it becomes older, and what older still contains then is dropped. Parts that are
// found in older are moved to recent.
type partCache struct {
	mu            sync.Mutex
	recent, older map[partKey]*cachedPart // guarded by mu
	size          int                     // guarded by mu: encoded bytes in recent
	seenOnce      []uint32                // guarded by mu: hashes of parts that occurred once; the index is the hash modulo the size
}

type partKey struct {
	field *fieldShape
	hash  uint64
}

type cachedPart struct {
	encoded []byte
	value   reflect.Value
}

const (
	smallPart    = 24        // a smaller part is decoded as fast as it is found
	largePart    = 64 << 10  // a larger part would evict too many others
	maxRecent    = 128 << 10 // bytes of encoded parts; decoded they take about seven times as much
	seenOnceSize = 1024
)

var hashSeed = maphash.MakeSeed()

// find returns the decoded value for the bytes of a field, if it is cached, and in any case their hash.
func (pc *partCache) find(field *fieldShape, encoded []byte) (reflect.Value, uint64) {
	key := partKey{field, maphash.Bytes(hashSeed, encoded)}
	pc.mu.Lock()
	known, ok := pc.recent[key]
	if !ok {
		if known, ok = pc.older[key]; ok {
			pc.keepLocked(key, known)
		}
	}
	pc.mu.Unlock()
	if !ok || !bytes.Equal(known.encoded, encoded) {
		return reflect.Value{}, key.hash
	}
	return known.value, key.hash
}

// add keeps a part that has been decoded if it occurs for the second time. Most parts that occur once belong to one
// object only, such as the status of a container.
func (pc *partCache) add(p newPart, value reflect.Value) {
	if len(p.run) > largePart {
		return
	}
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.seenOnce == nil {
		pc.seenOnce = make([]uint32, seenOnceSize)
	}
	if place := &pc.seenOnce[p.hash%seenOnceSize]; *place != uint32(p.hash>>32) {
		*place = uint32(p.hash >> 32)
		return
	}
	own := reflect.New(value.Type()).Elem()
	own.Set(value)
	pc.keepLocked(partKey{p.field, p.hash}, &cachedPart{encoded: bytes.Clone(p.run), value: own})
}

func (pc *partCache) keepLocked(key partKey, known *cachedPart) {
	if pc.size += len(known.encoded); pc.recent == nil || pc.size > maxRecent {
		pc.older, pc.recent, pc.size = pc.recent, map[partKey]*cachedPart{}, len(known.encoded)
	}
	pc.recent[key] = known
}
