//! Lists of the API, and their pages.

use serde_json::{Value, json};

/// Returns a text of each item of a list.
pub fn texts(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// Reads a whole list in pages of `size`, forwards or backwards. Returns the pages in the order of the list. `read`
/// gets the range of a page, such as `first` and `after`, and returns the page. The first cursor is null.
pub async fn read_pages(size: usize, backwards: bool, mut read: impl AsyncFnMut(Value) -> Value) -> Vec<Value> {
    let (count, cursor, end, more) = if backwards {
        ("last", "before", "startCursor", "hasPreviousPage")
    } else {
        ("first", "after", "endCursor", "hasNextPage")
    };
    let (mut pages, mut reached) = (Vec::new(), Value::Null);
    loop {
        let page = read(json!({ count: size, cursor: reached })).await;
        let info = &page["pageInfo"];
        let is_last = info[more] == false;
        reached = info[end].clone();
        pages.push(page);
        if is_last {
            break;
        }
    }
    if backwards {
        pages.reverse();
    }
    pages
}
