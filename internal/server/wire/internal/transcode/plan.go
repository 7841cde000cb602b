package transcode

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/millrace/millrace/internal/gotypes"
	"github.com/millrace/millrace/internal/protobuf"
	"google.golang.org/protobuf/encoding/protowire"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Plan describes how the messages of one type become JSON.
type Plan struct{ root *message }

// message describes one Go struct. It does not change once it is compiled.
type message struct {
	fields []field // in the order of JSON
	// byNumber maps a protobuf field number to the field's index plus one.
	byNumber []uint8
	// lenient says that unknown fields are skipped.
	lenient bool
}

// field is one field of a struct.
type field struct {
	lead        string // `,"name":`
	sub         *message
	number      uint16
	value       value
	wire        protowire.Type
	cardinality cardinality
	omitEmpty   bool
	omitZero    bool
	omitMissing bool // omitted if the message does not have it
}

// cardinality says how many values a field has.
type cardinality uint8

const (
	single  cardinality = iota
	pointer             // may be nil
	blob                // a slice that is one value
	list
	dict
	inline // a struct whose fields are members of the outer struct
)

// value is the type of one value of a field.
type value uint8

const (
	stringValue value = iota
	boolValue
	int32Value
	int64Value
	bytesValue
	structValue
	timeValue
	microTimeValue
	quantityValue
	intOrStringValue
	fieldsV1Value
	rawExtensionValue
	stringsValue // a message of strings that JSON shows as a list
	versionValue // the object's resource version, which replaces the one in the message
	float64Value
	// The rest are parts of the schemas of custom resources.
	jsonValue
	schemaOrSchemasValue
	schemaOrBoolValue
	schemaOrStringsValue
)

// wire returns how protobuf writes values of the type.
func (v value) wire() protowire.Type {
	switch v {
	case boolValue, int32Value, int64Value:
		return protowire.VarintType
	case float64Value:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

// special are the types with a MarshalJSON method that plans know.
var special = map[reflect.Type]value{
	reflect.TypeFor[metav1.Time]():          timeValue,
	reflect.TypeFor[metav1.MicroTime]():     microTimeValue,
	reflect.TypeFor[resource.Quantity]():    quantityValue,
	reflect.TypeFor[intstr.IntOrString]():   intOrStringValue,
	reflect.TypeFor[metav1.FieldsV1]():      fieldsV1Value,
	reflect.TypeFor[runtime.RawExtension](): rawExtensionValue,
	reflect.TypeFor[apiextensions.JSON]():   jsonValue,

	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       schemaOrSchemasValue,
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        schemaOrBoolValue,
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): schemaOrStringsValue,
}

// structs are the compiled messages. Kinds share most of them.
var structs = struct {
	sync.Mutex
	known map[reflect.Type]*message
	added []reflect.Type // by the compilation in progress
}{known: map[reflect.Type]*message{}}

// Compile makes the plan for an object's type. It fails if plans cannot describe the type.
func Compile(object reflect.Type) (*Plan, error) { return compile(object, false) }

// CompileMetadata makes a plan that writes only the fields of the type (PartialObjectMetadata), whatever object the
// message holds.
func CompileMetadata(object reflect.Type) (*Plan, error) { return compile(object, true) }

func compile(object reflect.Type, lenient bool) (*Plan, error) {
	structs.Lock()
	defer structs.Unlock()
	structs.added = nil
	shared, err := structFor(object)
	if err != nil {
		for _, t := range structs.added { // what was compiled may contain what was not
			delete(structs.known, t)
		}
		return nil, err
	}
	root := *shared
	root.lenient = lenient
	root.fields = append([]field(nil), shared.fields...)
	for i := range root.fields {
		if f := &root.fields[i]; f.lead == `,"metadata":` && f.cardinality == single && f.value == structValue {
			f.sub = versioned(f.sub)
			return &Plan{&root}, nil
		}
	}
	return nil, fmt.Errorf("%v has no metadata", object)
}

// versioned returns a copy of the metadata's description for the object itself, where the resource version is inserted.
func versioned(shared *message) *message {
	meta := *shared
	meta.fields = append([]field(nil), shared.fields...)
	for i := range meta.fields {
		if f := &meta.fields[i]; f.lead == `,"resourceVersion":` {
			f.value, f.omitMissing = versionValue, false
		}
	}
	return &meta
}

var errNotPlain = fmt.Errorf("JSON of its own")

// structFor compiles a struct, which may contain itself: what it returns may still be in progress. The caller holds the
// lock of structs.
func structFor(t reflect.Type) (*message, error) {
	if m, ok := structs.known[t]; ok {
		return m, nil
	}
	m := &message{}
	structs.known[t] = m
	structs.added = append(structs.added, t)
	for i := range t.NumField() {
		if err := m.add(gotypes.FieldOf(t.Field(i))); err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, t.Field(i).Name, err)
		}
	}
	if err := m.distinct(map[string]bool{}); err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return m, nil
}

// distinct refuses a name that occurs twice: which field encoding/json then shows depends on the depth of embedding.
func (m *message) distinct(seen map[string]bool) error {
	for _, f := range m.fields {
		if f.cardinality == inline {
			if err := f.sub.distinct(seen); err != nil {
				return err
			}
			continue
		}
		if seen[f.lead] {
			return fmt.Errorf("%s comes twice", f.lead)
		}
		seen[f.lead] = true
	}
	return nil
}

const maxFields = 1<<8 - 2

func (m *message) add(f gotypes.Field) error {
	number := int(protobuf.NumberOf(f.StructField))
	switch {
	case f.Type == reflect.TypeFor[metav1.TypeMeta]() && f.Anonymous && f.JSON == "" && number == 0:
		return nil // the field is not in messages, and is omitted when it is empty
	case f.Hidden || len(f.Others) > 0 || number <= 0 || number > 1000 || len(m.fields) == maxFields:
		return fmt.Errorf("tags %q are not covered", f.Tag)
	}
	out := field{number: uint16(number)}
	if err := out.describe(f.Type); err != nil {
		return err
	}
	if out.wire = out.value.wire(); out.cardinality == dict {
		out.wire = protowire.BytesType // of an entry
	}
	if f.JSON == "" {
		if !f.Anonymous || out.cardinality != single || out.value != structValue {
			return fmt.Errorf("no name")
		}
		out.cardinality = inline
	}
	out.lead = `,"` + f.JSON + `":`
	out.omitEmpty, out.omitZero = f.OmitEmpty, f.OmitZero
	if out.omitZero && (out.cardinality != single || out.value != timeValue) {
		return fmt.Errorf("omitzero is covered for times alone")
	}
	out.omitMissing = out.omitEmpty && (out.cardinality != single || out.value <= int64Value) && out.cardinality != inline || out.omitZero
	m.fields = append(m.fields, out)
	for len(m.byNumber) <= number {
		m.byNumber = append(m.byNumber, 0)
	}
	if m.byNumber[number] != 0 {
		return fmt.Errorf("number %d comes twice", number)
	}
	m.byNumber[number] = uint8(len(m.fields))
	return nil
}

// describe finds the cardinality and value of a field.
func (f *field) describe(t reflect.Type) error {
	err := f.describeValue(t)
	if err == nil {
		switch f.value {
		case bytesValue:
			f.cardinality = blob
		case stringsValue:
			return fmt.Errorf("%v is covered in maps alone", t)
		}
		return nil
	}
	if writesItself(t) && t.Kind() != reflect.Pointer {
		return err
	}
	switch t.Kind() {
	case reflect.Pointer:
		f.cardinality = pointer
	case reflect.Slice:
		f.cardinality = list
	case reflect.Map:
		if t.Key().Kind() != reflect.String || writesItself(t.Key()) {
			return fmt.Errorf("keys of %v", t)
		}
		f.cardinality = dict
	default:
		return err
	}
	if err := f.describeValue(t.Elem()); err != nil {
		return err
	}
	if f.cardinality != dict && f.value == stringsValue || f.cardinality == pointer && f.value == bytesValue {
		return fmt.Errorf("%v is not covered", t)
	}
	return nil
}

func (f *field) describeValue(t reflect.Type) error {
	if v, ok := special[t]; ok {
		f.value = v
		if v < schemaOrSchemasValue {
			return nil
		}
		var err error
		f.sub, err = structFor(reflect.TypeFor[apiextensions.JSONSchemaProps]())
		return err
	}
	if writesItself(t) {
		return fmt.Errorf("%v has %w", t, errNotPlain)
	}
	switch t.Kind() {
	case reflect.String:
		f.value = stringValue
	case reflect.Bool:
		f.value = boolValue
	case reflect.Int32:
		f.value = int32Value
	case reflect.Int64:
		f.value = int64Value
	case reflect.Float64:
		f.value = float64Value
	case reflect.Slice:
		return f.describeSlice(t)
	case reflect.Struct:
		f.value = structValue
		var err error
		f.sub, err = structFor(t)
		return err
	default:
		return fmt.Errorf("%v is not covered", t)
	}
	return nil
}

// describeSlice finds out whether a slice is one value in protobuf or a repeated field.
func (f *field) describeSlice(t reflect.Type) error {
	_, isMessage := reflect.New(t).Interface().(interface{ Unmarshal([]byte) error })
	switch {
	case t.Elem().Kind() == reflect.Uint8 && !isMessage:
		f.value = bytesValue
	case t.Elem().Kind() == reflect.String && isMessage && !writesItself(t.Elem()):
		f.value = stringsValue
	default:
		return fmt.Errorf("%v is not one value", t)
	}
	return nil
}

// writesItself reports whether a type, or a pointer to it, has its own MarshalJSON or MarshalText.
func writesItself(t reflect.Type) bool { return gotypes.MarshalsJSON(t) || gotypes.MarshalsText(t) }
