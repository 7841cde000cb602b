package negotiate

import (
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestTheMostPreferredFormatThatIsOfferedIsChosen(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, c := range []struct {
		name, accept string
		asked        Offer
		want         Format
		refusal      string
	}{
		{name: "nothing", want: Format{}},
		{name: "anything", accept: "*/*", want: Format{}},
		{name: "better and worse", accept: "application/json;q=0.5, application/vnd.kubernetes.protobuf", want: Format{Media: Protobuf}},
		{name: "a table", accept: table, want: Format{Shape: Table}},
		{name: "a table of what has none", accept: table, asked: Offer{NoTables: true}, refusal: "only the following media types are accepted: "},
		{name: "a table or else", accept: table + ", application/json", asked: Offer{NoTables: true}, want: Format{}},
		{name: "an unknown shape", accept: "application/json;as=Chair;v=v1;g=meta.k8s.io", refusal: "only the following media types are accepted: "},
		{name: "an unknown format", accept: "application/xml", refusal: "406: Not Acceptable\n\nAvailable representations: "},
		{name: "a stream of YAML", accept: YAMLType, asked: Offer{Stream: true}, refusal: "only the following media types are accepted: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			got, err := Choose(r, c.asked)
			if (err != nil) != (c.refusal != "") || err != nil && !(apierrors.ReasonForError(err) == "NotAcceptable" && strings.HasPrefix(err.Error(), c.refusal)) {
				t.Fatalf("the error is %v", err)
			}
			if err == nil && got != c.want {
				t.Errorf("%+v instead of %+v", got, c.want)
			}
		})
	}
}
