package server

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The one call of literals that CODE_AS_ACTION asks for, read without a Python.

type pythonCall struct {
	name       string
	positional []interface{}
	named      map[string]interface{}
}

const maxLiteralDepth = 64

var (
	errUnreadable = errors.New("not one call of literals")

	pythonBlanks = regexp.MustCompile(`^(?:[ \t\f\r\n]|#[^\n]*|\\\n)*`)
	pythonName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*`)
	pythonNumber = regexp.MustCompile(`^[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)`)
	pythonQuote  = regexp.MustCompile(`^([rRuU]?)("""|'''|"|')`)
	pythonEscape = regexp.MustCompile(`(?s)\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)`)

	pythonConstants = map[string]interface{}{"True": true, "False": false, "None": nil}
	pythonEscapes   = map[string]string{
		"\n": "", "\\": "\\", "'": "'", `"`: `"`,
		"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
	}
)

type pythonReader struct{ rest string }

// readPythonCall reads `name(literal, key=literal)`.
func readPythonCall(code string) (*pythonCall, error) {
	reader := &pythonReader{code}
	call := &pythonCall{name: reader.match(pythonName), named: map[string]interface{}{}}
	if call.name == "" || !reader.take("(") {
		return nil, errUnreadable
	}
	for !reader.take(")") {
		before := reader.rest
		key := reader.match(pythonName)
		isNamed := key != "" && reader.take("=")
		if !isNamed {
			reader.rest = before
		}
		value, err := reader.literal(0)
		_, repeated := call.named[key]
		switch {
		case err != nil || isNamed && repeated || !isNamed && len(call.named) > 0:
			return nil, errUnreadable
		case isNamed:
			call.named[key] = value
		default:
			call.positional = append(call.positional, value)
		}
		if !reader.take(",") && !reader.sees(")") {
			return nil, errUnreadable
		}
	}
	reader.match(pythonBlanks)
	if reader.rest != "" {
		return nil, errUnreadable
	}
	return call, nil
}

func (r *pythonReader) literal(depth int) (interface{}, error) {
	if depth > maxLiteralDepth {
		return nil, errUnreadable
	}
	switch {
	case r.take("["):
		return r.items("]", depth)
	case r.take("("):
		return r.items(")", depth)
	case r.take("{"):
		return r.dict(depth)
	}
	if text, is, err := r.text(); is || err != nil {
		return text, err
	}
	if number := r.match(pythonNumber); number != "" {
		return toNumber(number)
	}
	value, known := pythonConstants[r.match(pythonName)]
	if !known {
		return nil, errUnreadable
	}
	return value, nil
}

func (r *pythonReader) items(end string, depth int) (interface{}, error) {
	items := []interface{}{}
	for !r.take(end) {
		value, err := r.literal(depth + 1)
		if err != nil || !r.take(",") && !r.sees(end) {
			return nil, errUnreadable
		}
		items = append(items, value)
	}
	return items, nil
}

func (r *pythonReader) dict(depth int) (interface{}, error) {
	items := map[string]interface{}{}
	for !r.take("}") {
		key, err := r.literal(depth + 1)
		name, isText := key.(string)
		if err != nil || !isText || !r.take(":") {
			return nil, errUnreadable
		}
		value, err := r.literal(depth + 1)
		if err != nil || !r.take(",") && !r.sees("}") {
			return nil, errUnreadable
		}
		items[name] = value
	}
	return items, nil
}

// text reads string literals in a row, which are one.
func (r *pythonReader) text() (whole string, is bool, err error) {
	for {
		r.skipBlanks()
		start := pythonQuote.FindStringSubmatch(r.rest)
		if start == nil {
			return whole, is, nil
		}
		r.rest = r.rest[len(start[0]):]
		part, err := r.textEnd(start[2], strings.EqualFold(start[1], "r"))
		if err != nil {
			return "", true, err
		}
		whole, is = whole+part, true
	}
}

func (r *pythonReader) textEnd(quote string, raw bool) (string, error) {
	at := 0
	for at < len(r.rest) && !strings.HasPrefix(r.rest[at:], quote) {
		if len(quote) == 1 && r.rest[at] == '\n' {
			return "", errUnreadable
		}
		if r.rest[at] == '\\' {
			at++
		}
		at++
	}
	if at >= len(r.rest) {
		return "", errUnreadable
	}
	body := r.rest[:at]
	r.rest = r.rest[at+len(quote):]
	if raw {
		return body, nil
	}
	var failed bool
	text := pythonEscape.ReplaceAllStringFunc(body, func(escape string) string {
		character, ok := unescape(escape)
		failed = failed || !ok
		return character
	})
	if failed {
		return "", errUnreadable
	}
	return text, nil
}

func unescape(escape string) (string, bool) {
	code := escape[1:]
	if replaced, known := pythonEscapes[code]; known {
		return replaced, true
	}
	base := 16
	switch {
	case code[0] >= '0' && code[0] <= '7':
		base = 8
	case len(code) > 1 && strings.ContainsRune("xuU", rune(code[0])):
		code = code[1:]
	default:
		return escape, !strings.ContainsAny(code[:1], "xuUN")
	}
	point, err := strconv.ParseUint(code, base, 32)
	// A half of a pair is no character, and no text that could be sent.
	isFit := err == nil && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff)
	return string(rune(point)), isFit
}

func (r *pythonReader) take(mark string) bool {
	if !r.sees(mark) {
		return false
	}
	r.rest = r.rest[len(mark):]
	return true
}

func (r *pythonReader) sees(mark string) bool {
	r.skipBlanks()
	return strings.HasPrefix(r.rest, mark)
}

func (r *pythonReader) match(pattern *regexp.Regexp) string {
	r.skipBlanks()
	found := pattern.FindString(r.rest)
	r.rest = r.rest[len(found):]
	return found
}

func (r *pythonReader) skipBlanks() {
	r.rest = r.rest[len(pythonBlanks.FindString(r.rest)):]
}

func toNumber(text string) (interface{}, error) {
	plain := strings.ReplaceAll(text, "_", "")
	if strings.ContainsAny(plain, "xX") {
		whole, err := strconv.ParseInt(plain, 0, 64)
		return float64(whole), err
	}
	value, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(value, 0) {
		return nil, errUnreadable
	}
	return value, nil
}

// pythonLiteral returns a literal that readPythonCall reads as this value.
func pythonLiteral(value interface{}) string {
	switch value := value.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[value]
	case []interface{}:
		parts := make([]string, len(value))
		for at, each := range value {
			parts[at] = pythonLiteral(each)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]interface{}:
		var parts []string
		for key, each := range value {
			parts = append(parts, fmt.Sprintf("%s: %s", toJSON(key), pythonLiteral(each)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return toJSON(value) // of texts and numbers: Python reads them alike
}
