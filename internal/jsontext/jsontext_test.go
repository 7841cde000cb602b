package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/jsontext"
)

// strings that are difficult to quote, to read, or to check eight bytes at a time.
var difficult = []string{
	"", "a", "some value of it", "<b>&amp;", "\u2028", "\u2029", "\xff", "\xe2\x80", `"`, `\`, `\\"`, "\n\t\r\b\f\v", "\x00\x1f\x7f", "日本語", "🐟", "\ufffd",
	"0123456789abcdefghij", "0123456\"", "01234567\\", "0123456!#", "/", `k:{"containerPort":80,"protocol":"TCP"}`, "1234567\x1f12345678", "é1234567890",
}

// texts are values, some of them with a defect.
var texts = []string{
	`{}`, `[]`, `""`, `null`, `true`, `false`, `0`, `-0`, `-1`, `1.5`, `1e3`, `1E+3`, `01`, `1.`, `.5`, `-`, `1e`, `999999999999999999`, `1000000000000000000`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `1e999`, `0.0`,
	`{"a":1,"b":[true,false,null,{"c":"d"}]}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"a":1,}`, `[1,]`, `{"a" : [ 1 , 2 ] }`, `{"a"`, `{"a":`, `{"a":"`, `[[[[[[`,
	`{"f:a":{".":{},"k:{\"x\":\"y\"}":{}}}`, `{"a\"":1,"a\\":2}`, `{"\u0061":1}`, `"\u00e9"`, `"\ud83d\udc1f"`, `"\ud800"`, `"\/"`, `"\x"`, `"\`, `"<"`, `"é"`, "\"\u2028\"", "\"\xff\"",
	"\"\x01\"", `tru`, `nul`, `{"a":tru}`, `{"":{}}`, `{1:2}`, `{"a"1}`, `"a""b"`, ` {"a":1}`,
}

func FuzzStringsAreWrittenAsTheLibraryWritesThem(f *testing.F) {
	for _, s := range difficult {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		before := []byte("before ")
		if got := jsontext.Quote(before, s); string(got) != "before "+string(want) {
			t.Errorf("%q becomes %s, want %s", s, got, want)
		}
		if got := jsontext.Quote(before, []byte(s)); string(got) != "before "+string(want) {
			t.Errorf("the bytes of %q become %s, want %s", s, got, want)
		}
		n := jsontext.Unescaped(s)
		if !bytes.HasPrefix(want[1:], []byte(s[:n])) {
			t.Errorf("%d bytes of %q are said to need no escape", n, s)
		}
		if n < len(s) && s[n] < 0x80 && bytes.HasPrefix(want[1:], []byte(s[:n+1])) && s[n] != '\\' {
			t.Errorf("the byte at %d of %q is said to need an escape", n, s)
		}
	})
}

func FuzzStringsAreReadAsTheLibraryReadsThem(f *testing.F) {
	for _, s := range difficult {
		f.Add(string(jsontext.Quote(nil, s)), 0)
		f.Add(`"`+s+`" and more`, 1)
	}
	for _, s := range texts {
		f.Add(s, 0)
	}
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			return
		}
		s, end, ok := jsontext.String(text, at)
		if !ok {
			var want string
			ordinary := !strings.Contains(text, `\u`) && json.Valid([]byte(text)) && text == strings.ToValidUTF8(text, "")
			if at == 0 && ordinary && json.Unmarshal([]byte(text), &want) == nil && text[0] == '"' {
				t.Errorf("%s is refused", text)
			}
			return
		}
		var want string
		if err := json.Unmarshal([]byte(text[at:end]), &want); err != nil || s != want {
			t.Errorf("%s is read as %q, want %q, %v", text[at:end], s, want, err)
		}
		if whole, ok := jsontext.Unquote(text[at:end]); !ok || whole != s {
			t.Errorf("%s is one string, but is read as %q, %v", text[at:end], whole, ok)
		}
	})
}

// rewritten returns a text as encoding/json writes its value, with numbers as they are.
func rewritten(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%s is accepted, but %v", text, err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func FuzzAcceptedTextsAreWhatTheyAreSaidToBe(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
		f.Add(`{"a":` + s + `,"b":[` + s + `,` + s + `]}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := jsontext.Canonical{Text: text}
		if c.Skip() && c.At == len(text) && rewritten(t, text) != text {
			t.Errorf("%s is called canonical, but is written as %s", text, rewritten(t, text))
		}
		if jsontext.Verbatim(text) {
			raw, err := json.Marshal(json.RawMessage(text))
			if err != nil || string(raw) != text {
				t.Errorf("%s is said to be written as it is, but becomes %s, %v", text, raw, err)
			}
		}
		if jsontext.Verbatim(text) != jsontext.Verbatim([]byte(text)) {
			t.Errorf("%s is judged otherwise as bytes", text)
		}
		if n, integer := jsontext.Number(text); n > 0 && (!json.Valid([]byte(text[:n])) || integer == strings.ContainsAny(text[:n], ".eE")) {
			t.Errorf("%s is called a number (an integer: %v)", text[:n], integer)
		}
		if value, ok := jsontext.NumberValue(text); ok {
			var want float64
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Errorf("%s is read as the number %v, but %v", text, value, err)
			}
			if i, isInteger := value.(int64); isInteger && float64(i) != want || !isInteger && value != want {
				t.Errorf("%s is read as the number %v, want %v", text, value, want)
			}
		}
	})
}

func FuzzScannersEndAndFindWhatIsThere(f *testing.F) {
	for _, s := range texts {
		f.Add(s, "a")
		f.Add(`{"a":`+s+`,"b": [`+s+` , `+s+`] }`, "b")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		var got []string
		ended := jsontext.AllMembers(text, func(quoted, value string) bool {
			got = append(got, quoted, value)
			return true
		})
		found := jsontext.Member([]byte(text), name)
		elements := 0
		listed := jsontext.Elements(text, func(string) bool { elements++; return true })
		if !json.Valid([]byte(text)) {
			return
		}
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[") && json.Unmarshal([]byte(text), &list) == nil && (!listed || elements != len(list)) {
			t.Errorf("%d elements of %s, to the end: %v", elements, text, listed)
		}
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		if !ended || len(got)/2 < len(object) {
			t.Errorf("%q are the members of %s", got, text)
		}
		for i := 0; i < len(got); i += 2 {
			if !json.Valid([]byte(got[i])) || !json.Valid([]byte(got[i+1])) {
				t.Errorf("%q is called a member of %s", got[i:i+2], text)
			}
		}
		if len(got)/2 == len(object) && !strings.Contains(text, `\u`) && name == strings.ToValidUTF8(name, "") && text == strings.ToValidUTF8(text, "") && string(object[name]) != string(found) {
			t.Errorf("%q of %s is %s, want %s", name, text, found, object[name])
		}
	})
}

func TestWhatCannotBeComparedByItsTextIsAmbiguous(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":[1,"x",true]}`: false, `999999999999999999`: false, `-999999999999999999`: false,
		`{"a":[null]}`: true, `[1.5]`: true, `1000000000000000000`: true, `-1000000000000000000`: true, `1e2`: true,
	} {
		c := jsontext.Canonical{Text: text}
		if !c.Skip() || c.Ambiguous != want {
			t.Errorf("%s is ambiguous: %v", text, c.Ambiguous)
		}
	}
	for _, value := range []any{nil, 1.5, int64(1e18), int64(-1e18), []any{nil}, map[string]any{"a": 1.0}} {
		if !jsontext.Ambiguous(value) {
			t.Errorf("%v is not ambiguous", value)
		}
	}
	if jsontext.Ambiguous(map[string]any{"a": []any{int64(1), "x", true}}) {
		t.Error("what has one text is ambiguous")
	}
}

func TestDeepTextsAreRefused(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	if c := (jsontext.Canonical{Text: deep}); c.Skip() || jsontext.Verbatim(deep) {
		t.Error("100,000 lists in each other are accepted")
	}
}

func TestThePathToAValue(t *testing.T) {
	const text = `{"spec":{"replicas":3,"a\"b":{"c":"d"}},"list":[1]}`
	for _, c := range []struct {
		path []string
		want string
		ok   bool
	}{
		{nil, text, true}, {[]string{"spec", "replicas"}, "3", true}, {[]string{"spec", `a"b`, "c"}, `"d"`, true},
		{[]string{"status", "replicas"}, "", true}, {[]string{"list", "x"}, "", false},
	} {
		if got, ok := jsontext.At(text, c.path...); got != c.want || ok != c.ok {
			t.Errorf("%q is %s, %v", c.path, got, ok)
		}
	}
}

func BenchmarkQuote(b *testing.B) {
	for name, s := range map[string]string{"short": "kubernetes.io/hostname", "long": strings.Repeat("0123456789", 10), "escapes": `k:{"containerPort":80,"protocol":"TCP"}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var room [256]byte
			for b.Loop() {
				jsontext.Quote(room[:0], s)
			}
		})
	}
}
