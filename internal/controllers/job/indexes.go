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

// parseIndexes skips what is not below the limit or is invalid.
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
		out = append(out, span{first, min(last, limit-1)})
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

func (x indexes) has(i int) bool {
	at, found := slices.BinarySearchFunc(x, i, func(s span, i int) int {
		switch {
		case s.last < i:
			return -1
		case s.first > i:
			return 1
		}
		return 0
	})
	return found && x[at].first <= i
}

// with adds indexes to the set.
func (x indexes) with(more []int) indexes {
	if len(more) == 0 {
		return x
	}
	spans := slices.Clone(x)
	for _, i := range more {
		spans = append(spans, span{i, i})
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first - b.first })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.first <= last.last+1 {
			last.last = max(last.last, s.last)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// in counts the indexes that are in both sets.
func (x indexes) in(other indexes) int {
	n := 0
	for _, s := range x {
		for _, o := range other {
			n += max(0, min(s.last, o.last)-max(s.first, o.first)+1)
		}
	}
	return n
}
