// Package modelagent is the ACP version 1 agent that puts one prompt to a
// model API and relays the text of the answer: `signalbox model-agent`.
//
// It promises:
//   - one session and one prompt a process, no tools, no files, no state;
//   - one HTTP request at most, without retry, redirect, proxy or cookie,
//     within one deadline that counts from the admission of the prompt;
//   - an end_turn only after text and after the API's own confirmed end,
//     anything else is an error with a kind from a closed list;
//   - stdout carries protocol frames alone, and neither the credential nor a
//     body or header of the API is in any output but the answer's text itself.
//
// The wire names are those of the ACP v1 schema (agentclientprotocol, schema
// 1.21), of the OpenAI Responses streaming reference and of the chat
// completions reference.
package modelagent
