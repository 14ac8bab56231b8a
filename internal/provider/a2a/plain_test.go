package a2a

import "testing"

func TestOnlyPlainUpdatesAreReadTheQuickWay(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		quick bool
	}{
		"1.0":                     {`{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","name":"n","parts":[{"text":"one\n"},{"text":"\u00e9","mediaType":"text/plain","filename":"f"}]}}`, true},
		"0.3":                     {`{"kind":"artifact-update","taskId":"t","contextId":"c","append":false,"lastChunk":true,"artifact":{"artifactId":"a","parts":[{"kind":"text","text":""}],"metadata":{"x":[1]}}}`, true},
		"no parts":                {`{"taskId":"t","artifact":{"artifactId":"a","parts":[]}}`, true},
		"spaces":                  {`{ "taskId" : "t" , "artifact" : { "parts" : [ { "text" : "x" } ] } }`, true},
		"a file":                  {`{"taskId":"t","artifact":{"parts":[{"raw":"AA=="}]}}`, false},
		"data":                    {`{"taskId":"t","artifact":{"parts":[{"text":"x","data":null}]}}`, false},
		"a name in other letters": {`{"TaskID":"t"}`, false},
		"a name twice":            {`{"taskId":"t","taskId":"u"}`, false},
		"an artifact twice":       {`{"taskId":"t","artifact":{"artifactId":"a"},"artifact":{}}`, false},
		"null":                    {`{"taskId":null}`, false},
		"a number":                {`{"taskId":1}`, false},
		"a word for a truth":      {`{"taskId":"t","append":"true"}`, false},
		"parts that are none":     {`{"taskId":"t","artifact":{"parts":{}}}`, false},
		"half a pair":             {`{"taskId":"t","artifact":{"parts":[{"text":"\ud800"}]}}`, false},
		"a name that is escaped":  {`{"task\u0049d":"t"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := plain([]byte(c.value)); ok != c.quick {
				t.Errorf("it is read: %v", ok)
			}
			checkPlain(t, []byte(c.value))
			for _, version := range []string{v03, v10} {
				checkNews(t, version, []byte(`{"artifactUpdate":`+c.value+`}`))
			}
		})
	}
}
