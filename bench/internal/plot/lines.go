package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Line is one series of points.
type Line struct {
	Name string
	X, Y []float64
	// Colour is the number of one of the series' colours, from zero. Related lines may have the same colour if one of
	// them is dashed.
	Colour int
	Dashed bool
}

// Lines is a chart with logarithmic axes.
type Lines struct {
	Title, XLabel, YLabel string
	Lines                 []Line
}

const (
	linesHigh = 440
	linesTop  = top + 14 // below the name of the vertical axis
	leftEdge  = 80
	rightEdge = 60
	lowEdge   = 50
)

// SVG returns the chart as SVG.
func (li Lines) SVG() []byte {
	var xs, ys []float64
	for _, l := range li.Lines {
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
	}
	across := newAxis(xs, leftEdge, width-rightEdge)
	up := newAxis(ys, linesHigh-lowEdge, linesTop)
	var b strings.Builder
	begin(&b, linesHigh, li.Title)
	li.legend(&b)
	for _, t := range across.ticks() {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", across.at(t), across.at(t), linesTop, linesHigh-lowEdge)
		text(&b, across.at(t), linesHigh-lowEdge+16, "middle", 11, Short(t))
	}
	for _, t := range up.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", leftEdge, width-rightEdge, up.at(t), up.at(t))
		text(&b, leftEdge-6, up.at(t)+4, "end", 11, Short(t))
	}
	text(&b, (leftEdge+width-rightEdge)/2, linesHigh-12, "middle", 12, li.XLabel)
	text(&b, 16, linesTop-8, "start", 12, li.YLabel)
	for _, l := range li.Lines {
		l.draw(&b, across, up)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// legend draws the legend.
func (li Lines) legend(b *strings.Builder) {
	x := 16.0
	for _, l := range li.Lines {
		fmt.Fprintf(b, `<line x1="%.0f" x2="%.0f" y1="40" y2="40" %s/>`+"\n", x, x+22, l.stroke())
		text(b, x+27, 44, "start", 12, l.Name)
		x += 50 + 7.5*float64(len(l.Name))
	}
}

func (l Line) colour() string { return colours[l.Colour%len(colours)] }

func (l Line) stroke() string {
	dash := ""
	if l.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	return fmt.Sprintf(`stroke="%s" stroke-width="2"%s`, l.colour(), dash)
}

// draw draws a line from left to right, and the value of its last point.
func (l Line) draw(b *strings.Builder, across, up axis) {
	var order []int
	for i := range l.X {
		if l.X[i] > 0 && l.Y[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(l.X[i], l.X[j]) })
	var points strings.Builder
	for _, i := range order {
		fmt.Fprintf(&points, "%.1f,%.1f ", across.at(l.X[i]), up.at(l.Y[i]))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" %s/>`+"\n", strings.TrimSpace(points.String()), l.stroke())
	for n, i := range order {
		x, y := across.at(l.X[i]), up.at(l.Y[i])
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x, y, l.colour())
		if n == len(order)-1 {
			text(b, x+7, y+4, "start", 11, Short(l.Y[i]))
		}
	}
}

// axis converts values to positions on a logarithmic scale.
type axis struct{ low, high, from, to float64 }

func newAxis(values []float64, from, to float64) axis {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	a := axis{below(low), above(high), from, to}
	if a.high <= a.low {
		a.high = a.low * 10
	}
	return a
}

// steps divide a decade.
var steps = []float64{1, 2, 5}

func decade(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v)+1e-9)) }

// below and above return the nearest 1, 2 or 5 times a power of ten.
func below(v float64) float64 {
	d := decade(v)
	for _, s := range slices.Backward(steps) {
		if d*s <= v*(1+1e-9) {
			return d * s
		}
	}
	return d
}

func above(v float64) float64 {
	d := decade(v)
	for _, s := range steps {
		if d*s >= v*(1-1e-9) {
			return d * s
		}
	}
	return d * 10
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(v)-math.Log10(a.low))/(math.Log10(a.high)-math.Log10(a.low))
}

// ticks returns powers of ten, and values between them if there are few.
func (a axis) ticks() []float64 {
	between := steps
	if a.high/a.low > 1e4 {
		between = steps[:1]
	}
	var out []float64
	for d := decade(a.low); d <= a.high*1.001; d *= 10 {
		for _, s := range between {
			if t := d * s; t >= a.low*0.999 && t <= a.high*1.001 {
				out = append(out, t)
			}
		}
	}
	return out
}
