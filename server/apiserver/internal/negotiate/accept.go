package negotiate

import (
	"errors"
	"mime"
	"slices"
	"strconv"
	"strings"
)

type wish struct {
	Kind    string
	Params  map[string]string
	quality float64
}

// mostWishes bounds the work that a header can make.
const mostWishes = 64

// Wishes are the parts of an Accept header, most wanted first.
func Wishes(accept string) []wish {
	var out []wish
	for part := range strings.SplitSeq(accept, ",") {
		if len(out) == mostWishes {
			break
		}
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			continue
		}
		if raw, _, _ := strings.Cut(strings.TrimSpace(part), ";"); strings.TrimSpace(raw) != kind {
			continue // kube-apiserver knows them in small letters
		}
		w := wish{kind, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			w.quality = q
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b wish) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		}
		return 0
	})
	return out
}
