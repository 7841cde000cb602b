// Package plot draws charts as SVG: groups of horizontal bars, and lines. They need no script and no outside file, and
// look the same for the same figures.
package plot

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Colours of the series. Most people can distinguish them, including most colour-blind people.
var colours = []string{"#0b6e4f", "#b4533c", "#9aa0a6", "#3d5a98", "#c99a2e"}

// Group is a set of bars that are compared with each other. NaN is a missing bar. Low and High, if given, are the
// spread.
type Group struct {
	Label            string
	Value, Low, High []float64
}

// Bars is a bar chart on a logarithmic scale: the values differ by several orders of magnitude.
type Bars struct {
	Title, Unit string
	Series      []string
	Groups      []Group
}

const (
	width     = 900
	labelWide = 260
	barHigh   = 13
	groupGap  = 10
	top       = 64
	font      = `font-family="system-ui,sans-serif"`
)

// SVG returns the chart as SVG.
func (ba Bars) SVG() []byte {
	low, high := ba.bounds()
	room := float64(width - labelWide - 90)
	x := func(v float64) float64 {
		return labelWide + room*(math.Log10(v)-math.Log10(low))/(math.Log10(high)-math.Log10(low))
	}
	high0 := top + len(ba.Groups)*(len(ba.Series)*barHigh+groupGap) + 30
	var b strings.Builder
	begin(&b, high0, ba.Title)
	legend(&b, ba.Series)
	text(&b, width-16, 44, "end", 11, "logarithmic scale")
	for tick := low; tick <= high*1.001; tick *= 10 {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", x(tick), x(tick), top-6, high0-24)
		text(&b, x(tick), float64(high0-10), "middle", 11, Short(tick)+" "+ba.Unit)
	}
	y := top
	for _, g := range ba.Groups {
		text(&b, labelWide-8, float64(y+len(ba.Series)*barHigh/2+4), "end", 12, g.Label)
		for i, v := range g.Value {
			if v > 0 {
				bar(&b, x, g, i, y, low)
			}
			y += barHigh
		}
		y += groupGap
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func bar(b *strings.Builder, x func(float64) float64, g Group, i, y int, low float64) {
	v := g.Value[i]
	end := x(v)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", labelWide, y, max(end-labelWide, 1), barHigh-2, colours[i%len(colours)])
	if i < len(g.Low) && g.Low[i] > 0 && g.High[i] > g.Low[i] {
		from, to := x(max(g.Low[i], low)), x(g.High[i])
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#222"/>`+"\n", from, to, y+barHigh/2-1, y+barHigh/2-1)
		end = max(end, to)
	}
	text(b, end+4, float64(y+barHigh-3), "start", 11, Short(v))
}

// bounds returns powers of ten around all values.
func (ba Bars) bounds() (low, high float64) {
	low, high = math.Inf(1), 0
	for _, g := range ba.Groups {
		for _, v := range g.Value {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if high == 0 {
		return 1, 10
	}
	low = math.Pow(10, math.Floor(math.Log10(low*0.999)))
	high = math.Pow(10, math.Ceil(math.Log10(high)))
	if high <= low {
		high = low * 10
	}
	return low, high
}

func begin(b *strings.Builder, height int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", width, height, width, height)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(b, 16, 24, "start", 16, title)
}

func legend(b *strings.Builder, series []string) {
	x := 16.0
	for i, s := range series {
		fmt.Fprintf(b, `<rect x="%.0f" y="34" width="12" height="12" fill="%s"/>`+"\n", x, colours[i%len(colours)])
		text(b, x+17, 44, "start", 12, s)
		x += 40 + 7.5*float64(len(s))
	}
}

func text(b *strings.Builder, x, y float64, anchor string, size int, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" %s>`, x, y, anchor, size, font)
	// Writing into a Builder cannot fail.
	_ = xml.EscapeText(b, []byte(s))
	b.WriteString("</text>\n")
}

// Short formats a number with three digits and k, M or G.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return digits(v/1e9) + "G"
	case a >= 1e6:
		return digits(v/1e6) + "M"
	case a >= 1e4:
		return digits(v/1e3) + "k"
	}
	return digits(v)
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return trim(strconv.FormatFloat(v, 'g', 3, 64))
}

func trim(s string) string {
	if !strings.Contains(s, ".") || strings.Contains(s, "e") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
