//! Handles the agent's requests: permissions and forms go to the owner, files and commands are handled by the
//! sidecar.

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, CreateTerminalResponse, PermissionOption, ReadTextFileRequest,
    ReadTextFileResponse, RequestPermissionRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
    WriteTextFileResponse,
};
use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::Inbound;
use super::driver::Driver;
use super::permissions::{allowing, approval, by_policy, question, refusing};
use super::requests::Waiting;
use super::responses::{refuse, respond, selected};
use super::verdicts::{Gated, GatedRequest};
use super::work::Turn;
use crate::adapter::{PlanDecision, Refusal, Reply};
use crate::kit::form::Form;
use crate::kit::json::text;
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;
use crate::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE, OWN_TOOLS, is_exempt};

impl Driver {
    pub(super) async fn handle_request(
        &mut self,
        method: &str,
        parameters: Value,
        responder: Responder,
    ) -> Result<(), DriverExit> {
        if let Some(call) = self.unannounced(method, &parameters) {
            let request = Inbound::Request(method.to_owned(), parameters, responder);
            self.requests.wait_for_announcement(call, request);
            return Ok(());
        }
        match method {
            "session/request_permission" => return self.permission(parameters, responder).await,
            "elicitation/create" => return self.elicitation(&parameters, responder).await,
            "fs/read_text_file" => {
                let folder = self.folder.clone();
                let read = move || {
                    let request: ReadTextFileRequest =
                        serde_json::from_value(parameters).map_err(|e| e.to_string())?;
                    let read = folder.read(&request.path, request.line, request.limit);
                    read.map(ReadTextFileResponse::new).map_err(|e| e.to_string())
                };
                self.queue_file_request(responder, read);
            }
            "fs/write_text_file" => return self.gate(Gated::Write(parameters), responder),
            "terminal/create" => return self.gate(Gated::Terminal(parameters), responder),
            "terminal/output" => {
                respond_with(responder, parameters, |request: Value| {
                    self.terminals.output(terminal(&request))
                });
            }
            "terminal/kill" => {
                respond_with(responder, parameters, |request: Value| {
                    self.terminals.kill(terminal(&request)).map(|()| json!({}))
                });
            }
            "terminal/release" => {
                respond_with(responder, parameters, |request: Value| {
                    self.terminals.release(terminal(&request)).map(|()| json!({}))
                });
            }
            "terminal/wait_for_exit" => match self.terminals.exit(terminal(&parameters)) {
                Ok(mut exit) => {
                    tokio::spawn(async move {
                        let status = exit.wait_for(Option::is_some).await.map(|status| (*status).clone());
                        match status {
                            Ok(Some(status)) => send(responder, &WaitForTerminalExitResponse::new(status)),
                            _ => refuse(responder, "the terminal was released"),
                        }
                    });
                }
                Err(why) => refuse(responder, &why),
            },
            _ => {
                let error = agent_client_protocol::Error::method_not_found().data(method);
                if let Err(error) = responder.respond_with_error(error) {
                    tracing::debug!(code = ?error.code, "failed to respond to the agent");
                }
            }
        }
        Ok(())
    }

    pub(super) fn write_file(&mut self, parameters: Value, responder: Responder) {
        let (folder, idle) = (self.folder.clone(), self.turn.is_none());
        let write = move || {
            if idle {
                return Err("no turn runs".to_owned());
            }
            let request: WriteTextFileRequest =
                serde_json::from_value(parameters).map_err(|e| e.to_string())?;
            folder.write(&request.path, &request.content).map_err(|e| e.to_string())?;
            Ok(WriteTextFileResponse::new())
        };
        self.queue_file_request(responder, write);
    }

    /// Carries out a request for a file beside the driver, with the rights of the agent's user.
    fn queue_file_request<Response: Serialize + 'static>(
        &mut self,
        responder: Responder,
        carry_out: impl FnOnce() -> Result<Response, String> + Send + 'static,
    ) {
        let work = move || serde_json::to_value(carry_out()?).map_err(|e| e.to_string());
        self.files.push(work, move |response| match response {
            Ok(response) => respond(responder, response),
            Err(why) => refuse(responder, &why),
        });
    }

    pub(super) fn create_terminal(&mut self, parameters: Value, responder: Responder) {
        let (terminals, idle) = (&mut self.terminals, self.turn.is_none());
        respond_with(responder, parameters, |request: CreateTerminalRequest| {
            // Nothing starts outside of a turn, and nothing at all after an interrupt (decision 15).
            if idle {
                return Err("no turn runs".to_owned());
            }
            terminals.create(&request).map(CreateTerminalResponse::new)
        });
    }

    /// The id of the call that a request is about, if the agent has not announced the call yet. The announcement names
    /// the tool, and a busy agent sends it shortly after the request.
    fn unannounced(&self, method: &str, parameters: &Value) -> Option<String> {
        let call = match method {
            "session/request_permission" => parameters.get("toolCall")?,
            "elicitation/create" => parameters,
            _ => return None,
        };
        let id = text(call, "toolCallId")?;
        let may_come = self.turn.as_ref().is_some_and(|turn| !turn.is_ending())
            && self.advertised.profile.announces_calls
            && !self.translator.calls.is_known(id)
            && self.requests.may_be_announced(id);
        may_come.then(|| id.to_owned())
    }

    /// Releases the requests whose calls are announced, and those that have waited long enough.
    pub(super) fn take_announced(&mut self) {
        let calls = &self.translator.calls;
        self.deferred_requests.extend(self.requests.take_announced(|call| calls.is_known(call)));
    }

    async fn permission(&mut self, parameters: Value, responder: Responder) -> Result<(), DriverExit> {
        let call = parameters.get("toolCall").cloned().unwrap_or_default();
        let request: RequestPermissionRequest = match serde_json::from_value(parameters) {
            Ok(request) => request,
            Err(e) => {
                refuse(responder, &e.to_string());
                return Ok(());
            }
        };
        // The owner is not asked on behalf of a turn that has ended or must end.
        if self.turn.as_ref().is_none_or(Turn::is_ending) {
            respond(responder, selected(None));
            return Ok(());
        }
        let Ok(id) = ToolCallId::parse(&*request.tool_call.tool_call_id.0) else {
            refuse(responder, "the id of the tool call is not one");
            return Ok(());
        };
        let events = self.translator.publish_for_request(&call);
        self.emit(events).await?;
        let calls = &self.translator.calls;
        let proposed = calls.proposed(&id, &call);
        if let Some(why) = self.denied_call(&proposed.tool, &proposed.arguments) {
            respond(responder, selected(refusing(&request.options)));
            return Ok(self.events.emit(notice("delegation_denied", why)).await?);
        }
        let governed = self.is_governed().then_some(proposed);
        let tool = match &governed {
            Some(proposed) => proposed.tool.clone(),
            None => calls
                .name(id.as_str())
                .or_else(|| text(&call, "title").map(str::to_owned))
                .unwrap_or_else(|| "a tool".into()),
        };
        if tool == EXIT_PLAN_MODE {
            if !self.config.options.plan_approval_required {
                respond(responder, selected(allowing(&request.options)));
                return Ok(());
            }
            self.requests.wait(id, Waiting::Plan(request.options), responder);
            return Ok(());
        }
        let questions = self.translator.calls.input(id.as_str()).and_then(|input| input.get("questions"));
        if let Some(questions) = questions.filter(|_| tool == ASK_USER_QUESTION).cloned() {
            self.translator.asks = true;
            self.requests.wait(id, Waiting::Questions(request.options, questions), responder);
            return Ok(());
        }
        match governed.filter(|proposed| !is_exempt(&proposed.tool)) {
            Some(call) => {
                self.authorize(GatedRequest { what: Gated::Permission(request.options), call, responder });
                Ok(())
            }
            None => self.ask_permission(id, &tool, &call, request.options, responder).await,
        }
    }

    async fn ask_permission(
        &mut self,
        id: ToolCallId,
        tool: &str,
        call: &Value,
        options: Vec<PermissionOption>,
        responder: Responder,
    ) -> Result<(), DriverExit> {
        // Pilothouse's own tools need no permission.
        let own = tool.starts_with(OWN_TOOLS).then(|| allowing(&options)).flatten();
        if let Some(option) =
            own.or_else(|| by_policy(&self.config.allowed_tools, tool, text(call, "kind"), &options))
        {
            respond(responder, selected(Some(option)));
            return Ok(());
        }
        let questions = vec![question(tool, call, &options)];
        let input = self.translator.calls.input(id.as_str()).cloned();
        let input = input.or_else(|| call.get("rawInput").cloned()).unwrap_or(Value::Null);
        let approval = approval(tool, input, &options).map(Box::new);
        self.requests.wait(id.clone(), Waiting::Permission(options), responder);
        Ok(self
            .events
            .emit(RawEvent::QuestionAsked { request_id: id, questions, approval, proposal: None })
            .await?)
    }

    async fn elicitation(&mut self, parameters: &Value, responder: Responder) -> Result<(), DriverExit> {
        if self.turn.as_ref().is_none_or(Turn::is_ending) {
            respond(responder, json!({ "action": "cancel" }));
            return Ok(());
        }
        let call = text(parameters, "toolCallId");
        let events = call
            .map(|call| self.translator.publish_for_request(&json!({ "toolCallId": call })))
            .unwrap_or_default();
        self.emit(events).await?;
        let calls = &self.translator.calls;
        // The call of an asking tool is the question itself. Other forms are asked here.
        let asks = call.filter(|call| calls.name(call).as_deref() == Some(ASK_USER_QUESTION));
        let Some(form) = Form::read(parameters, asks.and_then(|call| calls.input(call))) else {
            respond(responder, json!({ "action": "decline" }));
            return Ok(());
        };
        let id = match call.map(ToolCallId::parse) {
            Some(Ok(id)) if !self.requests.waits(&id) => id,
            _ => {
                self.question_count += 1;
                let id = format!("form-{}-{}", self.run, self.question_count);
                ToolCallId::parse(id).map_err(|e| DriverExit::agent(e.to_string()))?
            }
        };
        let questions = form.questions();
        self.translator.asks = true;
        self.requests.wait(id.clone(), Waiting::Form(form), responder);
        if asks.is_some_and(|call| call == id.as_str()) {
            return Ok(());
        }
        Ok(self
            .events
            .emit(RawEvent::QuestionAsked { request_id: id, questions, approval: None, proposal: None })
            .await?)
    }

    pub(super) async fn decide(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), DriverExit> {
        let PlanDecision { request, approved, feedback } = decision;
        if !self.requests.decide(&request, approved) {
            return Ok(reply.refuse(Refusal::not_awaited()).await?);
        }
        reply.done().await?;
        // The protocol's response has no field for feedback, so it follows as a message.
        if let Some(feedback) = feedback.filter(|feedback| !approved && !feedback.trim().is_empty()) {
            self.messages.add_own(format!("The plan was rejected; revise it. {feedback}"));
            self.deliver_messages().await?;
        }
        Ok(())
    }
}

fn terminal(request: &Value) -> &str {
    text(request, "terminalId").unwrap_or_default()
}

/// Responds to a request with the result of `carry_out`.
fn respond_with<Request: DeserializeOwned, Response: Serialize>(
    responder: Responder,
    parameters: Value,
    carry_out: impl FnOnce(Request) -> Result<Response, String>,
) {
    let response = serde_json::from_value(parameters).map_err(|e| e.to_string()).and_then(carry_out);
    match response {
        Ok(response) => send(responder, &response),
        Err(why) => refuse(responder, &why),
    }
}

fn send(responder: Responder, response: &impl Serialize) {
    match serde_json::to_value(response) {
        Ok(response) => respond(responder, response),
        Err(e) => refuse(responder, &e.to_string()),
    }
}
