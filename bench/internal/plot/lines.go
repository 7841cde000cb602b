package plot

import (
	"fmt"
	"math"
	"strings"
)

// Line is one series of points, from left to right.
type Line struct {
	Name string
	X, Y []float64
}

// Lines is a chart with logarithmic axes.
type Lines struct {
	Title, XLabel, YLabel string
	Lines                 []Line
}

const (
	linesHigh = 420
	leftEdge  = 80
	rightEdge = 40
	lowEdge   = 50
)

// SVG draws it.
func (c Lines) SVG() []byte {
	var xs, ys []float64
	names := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		xs, ys, names[i] = append(xs, l.X...), append(ys, l.Y...), l.Name
	}
	across := newAxis(xs, leftEdge, width-rightEdge)
	up := newAxis(ys, linesHigh-lowEdge, top)
	var b strings.Builder
	begin(&b, linesHigh, c.Title)
	legend(&b, names)
	for _, t := range across.ticks() {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", across.at(t), across.at(t), top, linesHigh-lowEdge)
		text(&b, across.at(t), linesHigh-lowEdge+16, "middle", 11, Short(t))
	}
	for _, t := range up.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", leftEdge, width-rightEdge, up.at(t), up.at(t))
		text(&b, leftEdge-6, up.at(t)+4, "end", 11, Short(t))
	}
	text(&b, (leftEdge+width-rightEdge)/2, linesHigh-12, "middle", 12, c.XLabel)
	text(&b, leftEdge, top-6, "start", 12, c.YLabel)
	for i, l := range c.Lines {
		c.draw(&b, l, colours[i%len(colours)], across, up)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (c Lines) draw(b *strings.Builder, l Line, colour string, across, up axis) {
	var points []string
	for i := range l.X {
		if l.X[i] > 0 && l.Y[i] > 0 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", across.at(l.X[i]), up.at(l.Y[i])))
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
	for _, p := range points {
		x, y, _ := strings.Cut(p, ",")
		fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", x, y, colour)
	}
}

// axis places values on a logarithmic scale.
type axis struct{ low, high, from, to float64 }

func newAxis(values []float64, from, to float64) axis {
	low, high := Bars{Groups: []Group{{Value: values}}}.bounds()
	return axis{low, high, from, to}
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(v)-math.Log10(a.low))/(math.Log10(a.high)-math.Log10(a.low))
}

func (a axis) ticks() []float64 {
	var out []float64
	for t := a.low; t <= a.high*1.001; t *= 10 {
		out = append(out, t)
	}
	return out
}
