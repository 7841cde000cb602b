package protobuf

import (
	"reflect"
	"strconv"
	"strings"
)

// NumberOf returns the number in the tag of a Go field, such as `protobuf:"bytes,10,opt,name=nodeName"`; 0 if there is
// none. The rest of such tags is not always correct.
func NumberOf(f reflect.StructField) Number {
	_, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return Number(n)
}
