package server

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"

	envv1 "agentgym/env/v1"
)

// Parameter of a verb.
type Parameter struct {
	Name string
	// Type is string, integer, number, boolean, array or object.
	Type        string
	Description string
	Optional    bool
}

// Verb is a native action as a function.
type Verb struct {
	Name        string
	Description string
	Parameters  []Parameter
	// Render returns the native action of arguments that have the types of the parameters.
	Render func(given map[string]interface{}) string
}

// Grammar reads one native action from what a model wrote (docs/protocol.md, "Action formats"), and
// says a native action as a model would have written it. Nothing is ever executed.
type Grammar struct {
	Verbs []Verb
	// Express says a native action as a call, for scripted players.
	Express func(action string) (name string, given map[string]interface{})
}

const maxCodeBytes = 65_536

var (
	pythonBlock = regexp.MustCompile("(?s)```(?:python|py)?[ \\t]*\\n(.*?)```")
	jsonString  = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"`)
	lineStart   = regexp.MustCompile(`(?m)^`)
)

// read returns the action of a reply; false = it is unreadable.
func (g *Grammar) read(reply string, format envv1.ActionFormat) (string, bool) {
	switch format {
	case envv1.ActionFormat_ACTION_FORMAT_FUNCTION_CALLING:
		return g.readFunctionCall(reply)
	case envv1.ActionFormat_ACTION_FORMAT_CODE_AS_ACTION:
		return g.readCode(reply)
	}
	if at := strings.LastIndex(reply, "Action:"); at >= 0 {
		return strings.TrimSpace(reply[at+len("Action:"):]), true
	}
	return "", true
}

// readToolCall returns the action of a structured call whose arguments are JSON text.
func (g *Grammar) readToolCall(name, argumentsJSON string) (string, bool) {
	if argumentsJSON = strings.TrimSpace(argumentsJSON); argumentsJSON == "" {
		argumentsJSON = "{}"
	}
	return g.readCall(name, parseJSON(argumentsJSON))
}

func (g *Grammar) readFunctionCall(reply string) (string, bool) {
	begin, end := strings.Index(reply, "{"), strings.LastIndex(reply, "}")
	if begin < 0 || end < begin {
		return "", false
	}
	call, _ := parseJSON(reply[begin : end+1]).(map[string]interface{})
	name, _ := call["function_name"].(string)
	given := call["arguments"]
	if given == nil {
		given = map[string]interface{}{}
	}
	return g.readCall(name, given)
}

func (g *Grammar) readCode(reply string) (string, bool) {
	code := reply
	if block := pythonBlock.FindStringSubmatch(reply); block != nil {
		code = block[1]
	}
	if len(code) > maxCodeBytes {
		return "", false
	}
	call, err := readPythonCall(code)
	if err != nil {
		return "", false
	}
	verb := g.verb(call.name)
	if verb == nil || len(call.positional) > len(verb.Parameters) {
		return "", false
	}
	given := map[string]interface{}{}
	for at, value := range call.positional {
		given[verb.Parameters[at].Name] = value
	}
	for key, value := range call.named {
		if _, is := given[key]; is {
			return "", false
		}
		given[key] = value
	}
	return g.readCall(call.name, given)
}

func (g *Grammar) readCall(name string, arguments interface{}) (string, bool) {
	given, isObject := arguments.(map[string]interface{})
	verb := g.verb(name)
	if verb == nil || !isObject || !verb.fits(given) {
		return "", false
	}
	return verb.Render(given), true
}

// write returns advice as a model would have replied it.
func (g *Grammar) write(advice Advice, format envv1.ActionFormat) string {
	if format == envv1.ActionFormat_ACTION_FORMAT_REACT {
		return "Thought:\n" + advice.Thought + "\n\nAction:\n" + advice.Action
	}
	name, given := g.Express(advice.Action)
	if format == envv1.ActionFormat_ACTION_FORMAT_FUNCTION_CALLING {
		return toJSON(struct {
			Thought   string                 `json:"thought"`
			Name      string                 `json:"function_name"`
			Arguments map[string]interface{} `json:"arguments"`
		}{advice.Thought, name, given})
	}
	var arguments []string
	if verb := g.verb(name); verb != nil {
		for _, parameter := range verb.Parameters {
			if value, is := given[parameter.Name]; is {
				arguments = append(arguments, parameter.Name+"="+pythonLiteral(value))
			}
		}
	}
	// A fence inside the block would end it.
	call := strings.ReplaceAll(strings.Join(arguments, ", "), "```", "\\x60``")
	comments := lineStart.ReplaceAllString(strings.ReplaceAll(advice.Thought, "```", ""), "# ")
	return "```python\n" + comments + "\n" + name + "(" + call + ")\n```"
}

// functionsJSON declares the verbs as a JSON list of OpenAI-style tools.
func (g *Grammar) functionsJSON() string {
	type object = map[string]interface{}
	declared := []object{}
	for _, verb := range g.Verbs {
		properties, required := object{}, []string{}
		for _, parameter := range verb.Parameters {
			schema := object{"type": parameter.Type}
			if parameter.Description != "" {
				schema["description"] = parameter.Description
			}
			properties[parameter.Name] = schema
			if !parameter.Optional {
				required = append(required, parameter.Name)
			}
		}
		parameters := object{
			"type": "object", "properties": properties, "required": required,
			"additionalProperties": false,
		}
		function := object{
			"name": verb.Name, "description": verb.Description, "parameters": parameters,
		}
		declared = append(declared, object{"type": "function", "function": function})
	}
	return toJSON(declared)
}

func (g *Grammar) verb(name string) *Verb {
	for at := range g.Verbs {
		if g.Verbs[at].Name == name {
			return &g.Verbs[at]
		}
	}
	return nil
}

func (v *Verb) fits(given map[string]interface{}) bool {
	known := 0
	for _, parameter := range v.Parameters {
		value, is := given[parameter.Name]
		if is && !hasType(value, parameter.Type) || !is && !parameter.Optional {
			return false
		}
		if is {
			known++
		}
	}
	return known == len(given)
}

func hasType(value interface{}, name string) bool {
	switch value := value.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && value == math.Trunc(value)
	case []interface{}:
		return name == "array"
	case map[string]interface{}:
		return name == "object"
	}
	return false
}

// parseJSON reads JSON whose strings may have raw line breaks, as models write them; nil = it is none.
func parseJSON(text string) interface{} {
	escaped := jsonString.ReplaceAllStringFunc(text, func(literal string) string {
		var out strings.Builder
		for _, character := range literal {
			if character < ' ' {
				out.WriteString(strings.Trim(toJSON(string(character)), `"`))
			} else {
				out.WriteRune(character)
			}
		}
		return out.String()
	})
	var value interface{}
	if json.Unmarshal([]byte(escaped), &value) != nil {
		return nil
	}
	return value
}

// toJSON writes what can always be written: texts, finite numbers and what is made of them.
func toJSON(value interface{}) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
