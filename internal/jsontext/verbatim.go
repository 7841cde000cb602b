package jsontext

// Verbatim reports whether a text is one JSON object that encoding/json would write unchanged: without white space and
// HTML characters. It may return false for some such texts.
func Verbatim[T Text](text T) bool {
	return len(text) > 0 && text[0] == '{' && verbatimObject(text, 0, 0) == len(text)
}

// maxDepth keeps the stack small. No usual object is nested so deeply.
const maxDepth = 200

// The functions below take the offset where an element begins and return where it ends, or -1.

func verbatimObject[T Text](b T, at, depth int) int {
	if depth == maxDepth {
		return -1
	}
	if at++; at < len(b) && b[at] == '}' {
		return at + 1
	}
	for at < len(b) && b[at] == '"' {
		at = verbatimString(b, at+1)
		if at < 0 || at+2 >= len(b) || b[at] != ':' {
			return -1
		}
		if at++; b[at] == '{' && b[at+1] == '}' { // every path of managed fields ends with it
			at += 2
		} else if at = verbatimElement(b, at, depth+1); at < 0 {
			return -1
		}
		switch {
		case at >= len(b):
			return -1
		case b[at] == '}':
			return at + 1
		case b[at] != ',':
			return -1
		}
		at++
	}
	return -1
}

func verbatimList[T Text](b T, at, depth int) int {
	if depth == maxDepth {
		return -1
	}
	if at++; at < len(b) && b[at] == ']' {
		return at + 1
	}
	for {
		at = verbatimElement(b, at, depth+1)
		switch {
		case at < 0 || at >= len(b):
			return -1
		case b[at] == ']':
			return at + 1
		case b[at] != ',':
			return -1
		}
		at++
	}
}

func verbatimElement[T Text](b T, at, depth int) int {
	if at >= len(b) {
		return -1
	}
	switch b[at] {
	case '{':
		return verbatimObject(b, at, depth)
	case '[':
		return verbatimList(b, at, depth)
	case '"':
		return verbatimString(b, at+1)
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if end := at + len(word); end <= len(b) && string(b[at:end]) == word {
				return end
			}
		}
		return -1
	}
	n, _ := Number(b[at:])
	if n == 0 {
		return -1
	}
	return at + n
}

// verbatimString takes the offset after an opening quotation mark.
func verbatimString[T Text](b T, at int) int {
	for at < len(b) {
		c := b[at]
		if at++; unescaped[c] {
			continue
		}
		switch {
		case c == '"':
			return at
		case c == 0xe2 || c < 0x80 && c != '\\': // the UTF-8 of the line separators begins with e2
			return -1
		case c == '\\':
			if at >= len(b) || !shortEscape(b[at]) {
				return -1
			}
			at++
		}
	}
	return -1
}

// shortEscape reports whether a byte after a backslash is all of an escape.
func shortEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}
