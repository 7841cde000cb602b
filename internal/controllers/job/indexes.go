package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// indexes is a set of completion indexes, written like "1,3-5,7".
type indexes []span // sorted, with gaps between them

type span struct{ first, last int }

// parseIndexes skips what is not below the limit, is invalid, or does not come after what is before it.
func parseIndexes(text string, limit int) indexes {
	var out indexes
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first >= limit {
			continue
		}
		last := first
		if ranged {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		if first > last || len(out) > 0 && first <= out[len(out)-1].last {
			continue
		}
		last = min(last, limit-1)
		if n := len(out); n > 0 && first == out[n-1].last+1 { // two neighbours are written one by one
			out[n-1].last = last
			continue
		}
		out = append(out, span{first, last})
	}
	return out
}

func (x indexes) String() string {
	var parts []string
	for _, s := range x {
		switch s.last - s.first {
		case 0:
			parts = append(parts, strconv.Itoa(s.first))
		case 1:
			parts = append(parts, strconv.Itoa(s.first), strconv.Itoa(s.last))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", s.first, s.last))
		}
	}
	return strings.Join(parts, ",")
}

func (x indexes) len() int {
	n := 0
	for _, s := range x {
		n += s.last - s.first + 1
	}
	return n
}

// find returns the position of the span with an index, or else of the first span after it.
func (x indexes) find(i int) (at int, found bool) {
	return slices.BinarySearchFunc(x, i, func(s span, i int) int {
		switch {
		case s.last < i:
			return -1
		case s.first > i:
			return 1
		}
		return 0
	})
}

func (x indexes) has(i int) bool {
	_, found := x.find(i)
	return found
}

// lastOfSpan returns the last index of the span that has i.
func (x indexes) lastOfSpan(i int) int {
	at, _ := x.find(i)
	return x[at].last
}

// with returns a set that also has an index. It may change x.
func (x indexes) with(i int) indexes {
	at, found := x.find(i)
	if found {
		return x
	}
	x = slices.Insert(x, at, span{i, i})
	if at+1 < len(x) && x[at+1].first == i+1 {
		x[at].last = x[at+1].last
		x = slices.Delete(x, at+1, at+2)
	}
	if at > 0 && x[at-1].last == i-1 {
		x[at-1].last = x[at].last
		x = slices.Delete(x, at, at+1)
	}
	return x
}

// in counts the indexes that are in both sets.
func (x indexes) in(other indexes) int {
	n := 0
	for len(x) > 0 && len(other) > 0 {
		n += max(0, min(x[0].last, other[0].last)-max(x[0].first, other[0].first)+1)
		if x[0].last < other[0].last {
			x = x[1:]
		} else {
			other = other[1:]
		}
	}
	return n
}
