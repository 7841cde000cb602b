package transcode

// verbatim reports whether a text is one JSON object that encoding/json would write unchanged: without white space and HTML characters. It may return
// false for some such texts.
func verbatim(b []byte) bool {
	return len(b) > 0 && b[0] == '{' && object(b, 0, 0) == len(b)
}

// The functions below take the offset where an element begins and return where it ends, or -1.

const deepest = 100

func object(b []byte, at, depth int) int {
	if depth == deepest {
		return -1
	}
	if at++; at < len(b) && b[at] == '}' {
		return at + 1
	}
	for at < len(b) && b[at] == '"' {
		at = quoted(b, at+1)
		if at < 0 || at+2 >= len(b) || b[at] != ':' {
			return -1
		}
		if at++; b[at] == '{' && b[at+1] == '}' { // every path of managed fields ends with it
			at += 2
		} else if at = element(b, at, depth+1); at < 0 {
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

func array(b []byte, at, depth int) int {
	if depth == deepest {
		return -1
	}
	if at++; at < len(b) && b[at] == ']' {
		return at + 1
	}
	for at >= 0 {
		at = element(b, at, depth+1)
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
	return -1
}

func element(b []byte, at, depth int) int {
	if at >= len(b) {
		return -1
	}
	switch c := b[at]; {
	case c == '{':
		return object(b, at, depth)
	case c == '[':
		return array(b, at, depth)
	case c == '"':
		return quoted(b, at+1)
	case c == '-' || c >= '0' && c <= '9':
		return numeral(b, at)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if end := at + len(word); end <= len(b) && string(b[at:end]) == word {
			return end
		}
	}
	return -1
}

// quoted takes the offset after an opening quotation mark and returns the offset after the closing one.
func quoted(b []byte, at int) int {
	for at < len(b) {
		c := b[at]
		if at++; plainBytes[c] {
			continue
		}
		switch {
		case c == '"':
			return at
		case c == 0xe2 || c < 0x80 && c != '\\': // the UTF-8 of the line separators begins with e2
			return -1
		case c == '\\':
			if at = escaped(b, at); at < 0 {
				return -1
			}
		}
	}
	return -1
}

// escaped skips what follows a backslash.
func escaped(b []byte, at int) int {
	if at >= len(b) {
		return -1
	}
	switch b[at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 1
	}
	return -1
}

func numeral(b []byte, at int) int {
	if b[at] == '-' {
		at++
	}
	from := at
	if at = digits(b, at); at == from || b[from] == '0' && at > from+1 {
		return -1
	}
	if at < len(b) && b[at] == '.' {
		from = at + 1
		if at = digits(b, from); at == from {
			return -1
		}
	}
	if at < len(b) && b[at]|0x20 == 'e' {
		if at++; at < len(b) && (b[at] == '+' || b[at] == '-') {
			at++
		}
		from = at
		if at = digits(b, from); at == from {
			return -1
		}
	}
	return at
}

func digits(b []byte, at int) int {
	for at < len(b) && b[at] >= '0' && b[at] <= '9' {
		at++
	}
	return at
}
