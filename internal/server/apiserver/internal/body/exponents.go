package body

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/gotypes"
	"github.com/millrace/millrace/internal/protobuf"
)

// ExponentError refuses an object because of a quantity with a large exponent. Nothing else must decode the object
// then.
type ExponentError struct{ *apierrors.StatusError }

// errExponent is why an object is refused. To read the quantity 1e-9999999 takes a processor two seconds, 1e-2147483648
// many minutes, and comparing with 1e2147483647 as long; Kubernetes accepts all of them.
var errExponent = errors.New("quantities must not have exponents of more than three digits")

// Harmless reports whether no number in a JSON text has an exponent of more than three digits. A name may look like
// such a number, too: [Unmarshal] knows the difference.
func Harmless(text []byte) bool {
	_, found := harmlessText(text)
	return !found
}

// checkExponents refuses bytes that have a quantity with a large exponent without reading it: harmless, the same bytes
// with zeros for the digits of all large exponents, is decoded into another object of the type instead.
func checkExponents(harmless []byte, into runtime.Object, decode func([]byte, any) error) error {
	trial := reflect.New(reflect.TypeOf(into).Elem())
	if err := decode(harmless, trial.Interface()); err != nil {
		return err
	}
	if gotypes.Contains(trial, exponent) {
		return errExponent
	}
	return nil
}

// harmlessText returns a JSON text with zeros for the digits of large exponents, and whether there were any.
func harmlessText(text []byte) (harmless []byte, found bool) {
	if !bytes.Contains(text, []byte(`\u`)) && nextExponent(text, 0) < 0 {
		return text, false
	}
	text = unescaped(text)
	to := 0
	for at := nextExponent(text, 0); at >= 0; at = nextExponent(text, to) {
		from := at
		for from > 0 && isIn(text[from-1], "0123456789.+-") {
			from--
		}
		for to = at; to < len(text) && isIn(text[to], numeric); { // a run is looked at once, however many exponents it has
			to++
		}
		if from > 0 && isIn(text[from-1], letters) || to < len(text) && isIn(text[to], letters) {
			continue // a part of a word, mostly of a UID
		}
		if !found {
			text, found = bytes.Clone(text), true
		}
		zeroExponent(text[from:to])
	}
	return text, found
}

// harmlessMessage returns a protobuf message with zeros for the digits of large exponents, and whether there were any.
func harmlessMessage(message []byte) (harmless []byte, found bool) {
	if nextExponent(message, 0) < 0 {
		return message, false
	}
	message = bytes.Clone(message)
	protobuf.Everything(message, func(v []byte) {
		if at := nextExponent(v, 0); at >= 0 && len(bytes.Trim(v, numeric)) == 0 {
			zeroExponent(v)
			found = true
		}
	})
	return message, found
}

const numeric = "0123456789eE.+-"

const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

func isIn(c byte, all string) bool { return strings.IndexByte(all, c) >= 0 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// nextExponent returns where the first e at or after a place is that follows a number, and that more than three digits
// follow; -1 if there is none.
func nextExponent(b []byte, at int) int {
	for at = max(at, 1); at < len(b); at++ {
		if b[at]|0x20 != 'e' || !isDigit(b[at-1]) && b[at-1] != '.' {
			continue
		}
		from := at + 1
		if from < len(b) && (b[from] == '+' || b[from] == '-') {
			from++
		}
		if from+4 <= len(b) && isDigit(b[from]) && isDigit(b[from+1]) && isDigit(b[from+2]) && isDigit(b[from+3]) {
			return at
		}
	}
	return -1
}

// zeroExponent writes zeros over the digits after the first e.
func zeroExponent(number []byte) {
	for i := bytes.IndexAny(number, "eE"); i < len(number); i++ {
		if isDigit(number[i]) {
			number[i] = '0'
		}
	}
}

// unescaped returns a JSON text in which the characters of numbers and the spaces around them are not escaped.
func unescaped(text []byte) []byte {
	const length = len(`\u0065`)
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		size := 1
		if text[0] == '\\' && len(text) > 1 {
			size = 2
			if text[1] == 'u' && len(text) >= length {
				c, _ := strconv.ParseUint(string(text[2:length]), 16, 16) // 0 if it is none
				if c < 0x80 && isIn(byte(c), numeric) {
					out, text = append(out, byte(c)), text[length:]
					continue
				}
				if unicode.IsSpace(rune(c)) {
					out, text = append(out, ' '), text[length:]
					continue
				}
			} else if isIn(text[1], "tnrf") {
				out, text = append(out, ' '), text[2:]
				continue
			}
		}
		out, text = append(out, text[:size]...), text[size:]
	}
	return out
}

// exponent finds quantities that are written with an exponent.
func exponent(v reflect.Value) (found, whole bool) {
	if v.Type() != reflect.TypeFor[resource.Quantity]() {
		return false, false
	}
	return v.FieldByName("Format").String() == string(resource.DecimalExponent), true
}
