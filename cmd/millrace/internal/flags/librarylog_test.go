package flags

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/klog/v2"
)

func TestBrokenStreamsOfClientsAreNoErrorsOfTheProgram(t *testing.T) {
	for level, wanted := range map[string]string{"warn": "", "debug": "level=DEBUG"} {
		var log bytes.Buffer
		if _, err := (&Log{level: level, Format: "text"}).Logger(&log); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(klog.ClearLogger)
		request := httptest.NewRequest(http.MethodPost, "/portForward/a/b", nil) // it is not an upgrade
		portforward.ServePortForward(httptest.NewRecorder(), request, nil, "b", "uid", nil, time.Minute, time.Minute, portforward.SupportedProtocols)
		if got := log.String(); strings.Contains(got, "level=ERROR") || !strings.Contains(got, wanted) || wanted == "" && got != "" {
			t.Errorf("at level %s the log is %q", level, got)
		}
		utilruntime.HandleError(errors.New("something else"))
		if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "something else") {
			t.Errorf("at level %s another error is not logged: %q", level, got)
		}
	}
}
