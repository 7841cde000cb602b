package placement

import "math"

// totals finds the highest of many numbers of which few change at a time: it keeps the highest of each block and how
// often that occurs.
type totals struct {
	values []int64
	blocks []block
}

type block struct {
	best  int64
	count int
}

const (
	blockBits  = 6
	blockSize  = 1 << blockBits
	infeasible = math.MinInt64
)

func (t *totals) grow(slots int) {
	known := len(t.values)
	if known == slots {
		return
	}
	t.values = grown(t.values, slots)
	for i := known; i < slots; i++ {
		t.values[i] = infeasible
	}
	t.blocks = grown(t.blocks, (slots+blockSize-1)>>blockBits)
	for b := known >> blockBits; b < len(t.blocks); b++ {
		t.settleBlock(b)
	}
}

func (t *totals) set(i int, value int64) {
	t.values[i] = value
	t.settleBlock(i >> blockBits)
}

// settle must be called after values have been written directly.
func (t *totals) settle() {
	for b := range t.blocks {
		t.settleBlock(b)
	}
}

func (t *totals) settleBlock(b int) {
	best, count := int64(infeasible), 0
	for _, v := range t.values[b<<blockBits : min(len(t.values), (b+1)<<blockBits)] {
		switch {
		case v == infeasible || v < best:
		case v == best:
			count++
		default:
			best, count = v, 1
		}
	}
	t.blocks[b] = block{best: best, count: count}
}

// best returns the highest value and how often it occurs: 0 times if there are no values.
func (t *totals) best() (best int64, count int) {
	best = infeasible
	for _, b := range t.blocks {
		switch {
		case b.count == 0 || b.best < best:
		case b.best == best:
			count += b.count
		default:
			best, count = b.best, b.count
		}
	}
	return best, count
}

// nth returns the index of the nth occurrence of the highest value.
func (t *totals) nth(value int64, n int) int {
	for b := range t.blocks {
		if t.blocks[b].best != value || t.blocks[b].count == 0 {
			continue
		}
		if n >= t.blocks[b].count {
			n -= t.blocks[b].count
			continue
		}
		for i := b << blockBits; ; i++ {
			if t.values[i] != value {
				continue
			}
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic("placement: counts of the best totals are wrong")
}
